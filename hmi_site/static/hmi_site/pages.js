/* Gives unfold's page numbers below a table their addresses, without which no keyboard reaches them. */

htmx.onLoad((part) => {
  for (const number of part.querySelectorAll(".inline-pagination a[hx-get]:not([href])")) {
    number.href = number.getAttribute("hx-get");
  }
});
