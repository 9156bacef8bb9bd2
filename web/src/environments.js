// The boot environments of a zone.

import { act, confirm, dialog, field } from "./act.js";
import { errorBox, h, table } from "./dom.js";
import { bytes, when } from "./format.js";
import { run, runJson } from "./run.js";
import { listen, may, refresh } from "./store.js";

/** The characters of a name of a boot environment. */
export const NAME_PATTERN = "[A-Za-z0-9][A-Za-z0-9_.:\\-]*";

export function environmentsTab(pane, name) {
    const body = h("tbody");
    const error = errorBox();
    const create = h("button", { type: "button", class: "primary", "data-act": "create-environment", onclick: () => createDialog(name, read) }, "Create");
    create.hidden = !may(name, "root", "manage");
    pane.replaceChildren(h("div", { class: "card" },
        h("div", { class: "bar" }, h("span", { class: "dim" }, "A zone boots into one of its environments. The others keep their state."), h("span", { class: "grow" }), create),
        error, table("Boot environments", ["Name", "Active", "Made", "Space", ""], body)));
    async function read() {
        try {
            const rows = await runJson(["zoneadm", "-z", name, "beadm", "list", "-j"]);
            body.replaceChildren(...rows.map(one => row(name, one, read)));
            error.show(null);
        } catch (why) {
            body.replaceChildren();
            error.show(why);
        }
    }
    read();
    return listen(event => event?.zone === name && event.event !== "config" && read());
}

function row(name, one, read) {
    const words = (...more) => ["zoneadm", "-z", name, "beadm", ...more];
    const active = one.active_now ? one.active_on_reboot ? "now" : "until the reboot" : one.active_on_reboot ? "after a reboot" : "";
    const go = (doing, ...commands) => act(name, doing, ...commands).then(read);
    const text = "The zone reboots into it. The present environment stays, so you can go back.";
    const activate = h("button", { type: "button", "data-act": "activate",
        onclick: () => confirm(`Activate ${one.name}?`, text, "Activate", () => go("activating", words("activate", "--now", one.name))) }, "Activate now");
    const destroy = h("button", { type: "button", class: "danger", "data-act": "destroy-environment",
        onclick: () => confirm(`Destroy ${one.name}?`, "Its files are removed.", "Destroy", () => go("destroying", words("destroy", "-F", one.name))) }, "Destroy");
    const allowed = may(name, "root", "manage") && !one.active_now;
    return h("tr", { "data-environment": one.name }, h("td", {}, one.name), h("td", {}, active), h("td", {}, when(one.created)),
        h("td", { class: "number" }, bytes(one.space_bytes)), h("td", { class: "bar end" }, allowed ? [activate, one.active_on_reboot ? null : destroy] : null));
}

function createDialog(zone, read) {
    const input = h("input", { name: "name", type: "text", required: true, pattern: NAME_PATTERN, autocomplete: "off" });
    dialog("Create a boot environment", [field("Name", input)], "Create", async values => {
        await run(["zoneadm", "-z", zone, "beadm", "create", values.name]);
        await refresh();
        read();
    });
}
