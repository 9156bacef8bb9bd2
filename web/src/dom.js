// Makes elements. Text from zones, from their files and from messages reaches the page only as text
// nodes: no function here, and no other file, parses markup.

/** Returns a new element. A property `onclick` and the like is a listener; `true` sets an attribute
 *  without a value; `null`, `undefined` and `false` leave it out. Children are elements or text. */
export function h(tag, props = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(props)) {
        if (name.startsWith("on"))
            element.addEventListener(name.slice(2), value);
        else if (value === true)
            element.setAttribute(name, "");
        else if (value !== false && value !== null && value !== undefined)
            element.setAttribute(name, value);
    }
    element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined));
    return element;
}

/** Returns a table with a header cell for each title. */
export function table(label, titles, body) {
    const head = titles.map(title => h("th", { scope: "col" }, title));
    return h("div", { class: "scroll" }, h("table", { "aria-label": label }, h("thead", {}, h("tr", {}, head)), body));
}

/** Has a screen reader say a text, without a visible change. */
export function speak(text) {
    document.getElementById("spoken").textContent = text;
}

/** Returns an element for error messages, which is empty until `show` gets one. */
export function errorBox() {
    const box = h("div", { class: "error", role: "alert", hidden: true });
    box.show = error => {
        const text = error === null ? "" : String(error.message ?? error);
        box.textContent = text;
        box.hidden = text === "";
    };
    return box;
}
