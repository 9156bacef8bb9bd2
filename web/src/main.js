// Starts the page, and shows the view that the address names: #/, #/ZONE, #/ZONE/TAB.

import { listView } from "./list.js";
import { fail, refresh, store, watch } from "./store.js";
import { zoneView } from "./zone.js";

let close = null;

function route() {
    const [name, tab] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
    const page = document.getElementById("page");
    close?.();
    fail("action", null);
    fail("figures", null);
    close = name ? zoneView(page, name, tab || "overview") : listView(page);
}

/** Takes over Cockpit's choice of a light or dark page. */
function dress() {
    const chosen = localStorage.getItem("shell:style") ?? "auto";
    const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
}

dress();
window.addEventListener("storage", dress);
window.addEventListener("cockpit-style", dress);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", dress);
window.addEventListener("hashchange", route);
// A user who gets or gives up administrative access in Cockpit has other rights, also in the streams
// that run already.
const access = window.cockpit.permission({ admin: true });
let hadAccess = null;
access.addEventListener("changed", () => {
    if (hadAccess !== null && access.allowed !== hadAccess)
        location.reload();
    hadAccess = access.allowed;
});
window.cockpit.transport.wait(async () => {
    await refresh();
    route();
    watch();
});
// For the browser test.
window.zones = store;
