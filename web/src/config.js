// The configuration of a zone as a form. The schema makes its fields; zonecfg checks their values, so
// the page shows zonecfg's own messages.

import { commandsOf, isSimple, shown, typed } from "./commands.js";
import { errorBox, h, speak } from "./dom.js";
import { run, runJson } from "./run.js";
import { listen, may, refresh } from "./store.js";

let schema = null;

export function configTab(pane, name) {
    let closed = false;
    const load = async () => {
        try {
            schema ??= await (await fetch("zone.schema.json")).json();
            // The digest comes first: a change after it is found when this form is saved.
            const digest = (await run(["zonecfg", "-z", name, "--digest"])).trim();
            const config = await runJson(["zonecfg", "-z", name, "info", "-j"]);
            if (!closed)
                pane.replaceChildren(...form(name, config, digest, load));
        } catch (error) {
            const box = errorBox();
            box.show(error);
            pane.replaceChildren(box);
        }
    };
    load();
    const unlisten = listen(event => {
        if (event?.event !== "config" || event.zone !== name)
            return;
        const note = pane.querySelector("[data-role=stale]");
        if (note)
            note.hidden = false;
    });
    return () => {
        closed = true;
        unlisten();
    };
}

function form(name, config, digest, load) {
    const allowed = may(name, "root", "config");
    const properties = new Fields(schema, config, allowed, config);
    const groups = Object.entries(schema.properties)
        .filter(([, property]) => !isSimple(property))
        .map(([type, property]) => new Resources(type, property, config[type], allowed, config));
    const error = errorBox();
    const preview = h("pre", { "data-role": "commands", "aria-label": "Commands for zonecfg" });
    const done = h("span", { class: "dim", role: "status" });
    const commands = () => commandsOf(schema, config, {
        properties: properties.values(),
        resources: Object.fromEntries(groups.map(group => [group.type, group.edits()])),
    });
    const show = () => {
        try {
            preview.textContent = commands().join("\n");
            error.show(null);
        } catch (why) {
            error.show(why);
        }
    };
    const save = h("button", { type: "submit", class: "primary", "data-act": "save" }, "Save");
    const reload = h("button", { type: "button", "data-act": "reload", onclick: load }, "Reload");
    const stale = h("p", { class: "error", "data-role": "stale", hidden: true }, "The stored configuration has changed. Reload it before you change it.");
    const whole = h("form", { class: "config" }, h("div", { class: "card" }, h("h2", {}, "Properties"), properties.element),
        groups.map(group => group.element), h("div", { class: "card sticky" }, stale, error, preview, h("div", { class: "bar" }, allowed ? save : null, reload, done)));
    groups.forEach(group => group.element.addEventListener("edited", show));
    whole.addEventListener("input", show);
    whole.addEventListener("submit", async event => {
        event.preventDefault();
        done.textContent = "";
        save.disabled = true;
        try {
            const text = commands().join("\n");
            if (text !== "") {
                await run(["zonecfg", "-z", name, "--atomic", "--expect", digest, "-f", "-"], `${text}\n`);
                speak("The configuration is saved");
                await refresh();
                await load();
                return;
            }
            done.textContent = "Nothing to save.";
        } catch (why) {
            error.show(why);
        }
        save.disabled = false;
    });
    return [whole];
}

/** The inputs for the simple properties of an object. */
class Fields {
    constructor(schema, object, allowed, config) {
        this.inputs = new Map();
        this.element = h("div", { class: "fields" });
        for (const [name, property] of shown(schema)) {
            if (!isSimple(property)) {
                // A list of values, which zonecfg(8) changes.
                if (object !== config && object[name] !== undefined)
                    this.element.append(h("div", {}, h("span", {}, name), h("code", {}, JSON.stringify(object[name]))));
                continue;
            }
            if (!fits(property, config.brand))
                continue;
            const input = inputOf(name, property, typed(object, name), allowed);
            this.inputs.set(name, input);
            this.element.append(h("label", {}, h("span", {}, name), input, h("small", {}, property.description ?? "")));
        }
    }

    values() {
        return Object.fromEntries([...this.inputs].map(([name, input]) => [name, input.type === "checkbox" ? input.checked : input.value.trim()]));
    }
}

/** Returns true unless the description says that only other brands, or the host, have the property. */
function fits(property, brand) {
    if (/Only the global\s+zone has it/.test(property.description ?? ""))
        return false;
    const brands = /Brands: ([a-z0-9, -]+)\./.exec(property.description ?? "")?.[1];
    return !brands || brands.split(", ").includes(brand);
}

function inputOf(name, property, value, allowed) {
    const now = value ?? property.default ?? "";
    if (property.type === "boolean") {
        const input = h("input", { type: "checkbox", name, disabled: !allowed });
        input.checked = now === true || now === "true";
        return input;
    }
    if (property.enum) {
        const input = h("select", { name, disabled: !allowed }, property.default === undefined ? h("option", { value: "" }, "-") : null, property.enum.map(word => h("option", { value: word }, word)));
        input.value = now;
        return input;
    }
    // A number may have a suffix, as in 512m, so zonecfg checks it and not the browser.
    return h("input", { type: "text", name, value: now, disabled: !allowed, autocomplete: "off", spellcheck: "false" });
}

/** The resources of one type, each with its inputs. */
class Resources {
    constructor(type, property, value, allowed, config) {
        this.type = type;
        this.isSingle = property.type === "object";
        this.schema = this.isSingle ? property : property.items;
        this.allowed = allowed;
        this.config = config;
        this.all = [];
        this.list = h("div", {});
        this.more = h("button", { type: "button", "data-act": `add-${type}`, onclick: () => { this.add(null); this.tell(); } }, `Add ${type}`);
        const open = value !== undefined;
        this.element = h("details", { class: "card", open, "data-resource": type },
            h("summary", {}, h("b", {}, type), " ", h("span", { class: "dim" }, property.description ?? "")), this.list, allowed ? this.more : null);
        const values = value === undefined ? [] : this.isSingle ? [value] : value;
        values.forEach(one => this.add(one));
        this.count();
    }

    add(was) {
        const fields = new Fields(this.schema, was ?? {}, this.allowed, this.config);
        const entry = { was, fields, removed: false };
        const remove = h("button", { type: "button", class: "danger", "data-act": `remove-${this.type}`, onclick: () => {
            entry.removed = true;
            entry.element.remove();
            this.count();
            this.tell();
        } }, "Remove");
        entry.element = h("fieldset", {}, fields.element, this.allowed ? remove : null);
        this.list.append(entry.element);
        this.all.push(entry);
        this.count();
    }

    count() {
        this.more.hidden = this.isSingle && this.all.some(entry => !entry.removed);
    }

    tell() {
        this.element.dispatchEvent(new Event("edited"));
    }

    edits() {
        return this.all
            .filter(entry => entry.was || !entry.removed)
            .map(entry => ({ was: entry.was, now: entry.removed ? null : entry.fields.values() }));
    }
}
