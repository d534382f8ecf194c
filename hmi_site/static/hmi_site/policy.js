/* Keeps unfold's scripts within the content policy, which forbids styles in place. */

htmx.config.includeIndicatorStyles = false;

// Alpine writes the styles it computes as an attribute; as properties of the element they are allowed.
const setAttribute = Element.prototype.setAttribute;
Element.prototype.setAttribute = function (name, value) {
  if (name === "style") {
    this.style.cssText = value;
  } else {
    setAttribute.call(this, name, value);
  }
};
