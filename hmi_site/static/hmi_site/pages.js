/* The theme that was chosen on the tenants' pages, whose cookie is read before unfold draws the page, and is written
   when another is chosen here. */

const chosen = /(?:^|; )hmi_theme=(light|dark)(?:;|$)/.exec(document.cookie)?.[1];
localStorage.setItem("adminTheme", JSON.stringify(chosen ?? "auto"));

document.addEventListener("alpine:initialized", () => {
  Alpine.effect(() => {
    const { adminTheme } = Alpine.$data(document.documentElement);
    const theme = adminTheme === "auto" ? "" : adminTheme;
    const age = theme ? 365 * 24 * 60 * 60 : 0;
    const safely = location.protocol === "https:" ? "; Secure" : "";
    document.cookie = `hmi_theme=${theme}; Path=/; Max-Age=${age}; SameSite=Lax${safely}`;
  });
});

/* Gives unfold's page numbers below a table their addresses, without which no keyboard reaches them. */

htmx.onLoad((part) => {
  for (const number of part.querySelectorAll(".inline-pagination a[hx-get]:not([href])")) {
    number.href = number.getAttribute("hx-get");
  }
});
