// What a user does with a zone: the buttons, the questions before them, the commands.

import { h, errorBox, speak } from "./dom.js";
import { visible } from "./format.js";
import { runWithProgress } from "./run.js";
import { changed, fail, may, refresh, store } from "./store.js";

/** Runs commands on a zone, one after the other, and shows that the zone is busy. Returns true if all
 *  succeeded. */
export async function act(zone, doing, ...commands) {
    store.busy.set(zone, doing);
    fail("action", null);
    speak(`${zone}: ${doing}`);
    changed();
    let done = true;
    const tell = text => {
        store.busy.set(zone, `${doing}: ${visible(text)}`);
        changed();
    };
    try {
        for (const words of commands)
            await runWithProgress(words, tell);
        speak(`${zone}: ${doing}: done`);
    } catch (error) {
        fail("action", error.message);
        done = false;
    }
    store.busy.delete(zone);
    await refresh();
    return done;
}

/** The buttons of a zone: name, label, states, authorizations, words for zoneadm, question. */
const BUTTONS = [
    ["boot", "Boot", ["installed", "ready"], ["boot"], "booting"],
    ["shutdown", "Shut down", ["running"], ["shutdown"], "shutting down"],
    ["reboot", "Reboot", ["running"], ["reboot"], "rebooting", "All processes of the zone end, and it boots again."],
    ["halt", "Halt", ["ready", "running", "shutting_down", "down"], ["halt"], "halting",
        "All processes of the zone are killed at once. Shut down ends them in order."],
    ["install", "Install", ["configured"], ["install"], "installing"],
    ["uninstall", "Uninstall", ["incomplete", "installed"], ["uninstall", "-F"], "uninstalling",
        "All files, snapshots and boot environments of the zone are removed."],
];

/** Returns the buttons for the present state of a zone. `names` selects some of them. */
export function buttons(zone, names) {
    const doing = store.busy.get(zone.name);
    if (doing)
        return [h("span", { class: "dim" }, `${doing}…`)];
    if (zone.name === "global" || !may(zone.name, "root", "manage"))
        return [];
    const fit = BUTTONS.filter(([name, , states]) => states.includes(zone.state) && (!names || names.includes(name)));
    return fit.map(([name, label, , words, doing, question]) => {
        const go = () => act(zone.name, doing, ["zoneadm", "-z", zone.name, ...words]);
        const onclick = question ? () => confirm(`${label} ${zone.name}?`, question, label, go) : go;
        return h("button", { type: "button", "data-act": name, class: question ? "danger" : null, onclick }, label);
    });
}

/** Asks a question, and calls `go` if the user agrees. */
export function confirm(title, text, label, go) {
    dialog(title, [h("p", {}, text)], label, async () => { go(); });
}

/** Shows a dialog with a form. `go` gets the values of its fields by name; if it fails, the dialog
 *  shows the error and stays. */
export function dialog(title, content, label, go) {
    const error = errorBox();
    const submit = h("button", { type: "submit", class: "primary", "data-act": "ok" }, label);
    const cancel = h("button", { type: "button", "data-act": "cancel", onclick: () => box.close() }, "Cancel");
    const form = h("form", { method: "dialog" }, h("h2", { id: "dialog-title" }, title), content, error,
        h("div", { class: "bar end" }, cancel, submit));
    const box = h("dialog", { "aria-labelledby": "dialog-title" }, form);
    form.addEventListener("submit", async event => {
        event.preventDefault();
        submit.disabled = true;
        error.show(null);
        try {
            await go(Object.fromEntries(new FormData(form)));
            box.close();
        } catch (why) {
            error.show(why);
        }
        submit.disabled = false;
    });
    box.addEventListener("close", () => box.remove());
    document.body.append(box);
    box.showModal();
}

/** Returns a labelled field for a dialog. */
export function field(label, control, hint) {
    const id = `field-${control.getAttribute("name")}`;
    control.id = id;
    return h("p", { class: "field" }, h("label", { for: id }, label), control, hint ? h("small", {}, hint) : null);
}
