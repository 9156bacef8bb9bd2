// The page of one zone: its title, its buttons, its tabs.

import { act, buttons, confirm, dialog, field } from "./act.js";
import { h } from "./dom.js";
import { visible } from "./format.js";
import { run, runWithProgress } from "./run.js";
import { errorText, isRoot, listen, may, refresh, store } from "./store.js";
import { createDialog } from "./create.js";
import { configTab } from "./config.js";
import { consoleTab } from "./console.js";
import { environmentsTab } from "./environments.js";
import { logTab } from "./log.js";
import { overviewTab } from "./overview.js";
import { limitsTab, patchesTab, processesTab } from "./tables.js";
import { timeTab } from "./time.js";

/** Name, label, content, and the authorizations of which one is needed; none for everybody. */
const TABS = [
    ["overview", "Overview", overviewTab],
    ["console", "Console", consoleTab, ["root", "login"]],
    ["processes", "Processes", processesTab],
    ["limits", "Limits", limitsTab],
    ["time", "Snapshots", timeTab, ["root", "login", "manage"]],
    ["environments", "Boot environments", environmentsTab, ["root", "login", "manage"]],
    ["patches", "Patches", patchesTab, ["root"]],
    ["config", "Configuration", configTab],
    ["log", "Log", logTab, ["root", "login", "manage"]],
];

export function zoneView(page, name, wanted) {
    const state = h("span", { class: "state" });
    const bar = h("div", { class: "bar" });
    const error = h("div", { class: "error", role: "alert" });
    const tabs = h("nav", { class: "tabs", "aria-label": "Parts of the zone" });
    const pane = h("section", { class: "pane", "aria-label": wanted });
    page.replaceChildren(h("h1", {}, h("a", { href: "#/", "data-act": "back" }, "Zones"), " / ", name, " ", state), bar, error, tabs, pane);
    let close = null;
    let sign = "";
    function paint() {
        error.textContent = errorText();
        const zone = store.zones.get(name);
        if (!zone) {
            state.textContent = store.lists > 0 ? "does not exist" : "";
            bar.replaceChildren();
            return;
        }
        const now = `${zone.state} ${zone.auxiliary ?? ""} ${store.busy.get(name) ?? ""} ${zone.may}`;
        if (now === sign)
            return;
        sign = now;
        state.className = `state ${zone.state}`;
        state.textContent = zone.auxiliary ? `${zone.state} (${zone.auxiliary})` : zone.state;
        bar.replaceChildren(...buttons(zone), ...more(zone));
        const allowed = TABS.filter(([, , , auths]) => !auths || may(name, ...auths));
        tabs.replaceChildren(...allowed.map(([tab, label]) => h("a", {
            href: `#/${encodeURIComponent(name)}/${tab}`, class: tab === wanted ? "on" : null,
            "aria-current": tab === wanted ? "page" : null, "data-tab": tab,
        }, label)));
        if (close === null) {
            const found = allowed.find(([tab]) => tab === wanted);
            close = found ? found[2](pane, name) ?? (() => {}) : () => {};
            if (!found)
                pane.textContent = "You are not authorized to see this part of the zone.";
        }
    }
    const unlisten = listen(paint);
    paint();
    return () => {
        unlisten();
        close?.();
    };
}

/** Returns the buttons that only the page of a zone has. */
function more(zone) {
    const name = zone.name;
    if (store.busy.has(name) || name === "global")
        return [];
    const button = (id, label, onclick, danger) => h("button", { type: "button", "data-act": id, class: danger ? "danger" : null, onclick }, label);
    const list = [];
    if (isRoot() && zone.state === "installed")
        list.push(button("clone", "Clone", () => createDialog(name)));
    if (zone.state === "running" && may(name, "root", "manage", "liveconfig"))
        list.push(button("apply", "Apply configuration", () => applyDialog(name)));
    if (isRoot() && zone.state === "configured") {
        const text = "The configuration of the zone is removed.";
        const go = async () => {
            if (await act(name, "deleting", ["zonecfg", "-z", name, "delete", "-F"]))
                location.hash = "#/";
        };
        list.push(button("delete", "Delete", () => confirm(`Delete ${name}?`, text, "Delete", go), true));
    }
    if (isRoot() && zone.brand === "kz" && zone.state === "running") {
        list.push(button("suspend", "Suspend", () => act(name, "suspending", ["zoneadm", "-z", name, "suspend"])));
        list.push(button("migrate", "Migrate", () => migrateDialog(name)));
    }
    return list;
}

/** Shows what `zoneadm apply` would change, and applies it. */
async function applyDialog(name) {
    let plan;
    try {
        plan = await run(["zoneadm", "-z", name, "apply", "-n"]);
    } catch (error) {
        plan = error.message;
    }
    dialog(`Apply the configuration of ${name}?`, [h("pre", {}, plan || "Nothing differs from the running zone.")], "Apply", async () => {
        await run(["zoneadm", "-z", name, "apply"]);
        await refresh();
    });
}

function migrateDialog(name) {
    const target = h("input", { name: "target", type: "text", required: true, placeholder: "ssh://root@host", autocomplete: "off" });
    const progress = h("p", { class: "dim", role: "status", "data-role": "progress" });
    const tell = text => { progress.textContent = visible(text); };
    dialog(`Migrate ${name}`, [field("Target", target), progress], "Migrate", async values => {
        await runWithProgress(["zoneadm", "-z", name, "migrate", values.target], tell);
        await refresh();
    });
}
