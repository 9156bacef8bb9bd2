// The dialog that creates a zone: from another zone, from an image, or with the host's software.

import { dialog, field } from "./act.js";
import { h } from "./dom.js";
import { visible } from "./format.js";
import { runJson, runWithProgress } from "./run.js";
import { refresh, store } from "./store.js";

/** Shows the dialog. `origin` is the zone to clone and `snapshot` one of its snapshots, if given. */
export async function createDialog(origin, snapshot) {
    const from = typeof origin === "string" ? origin : null;
    let images = [];
    try {
        images = await runJson(["zoneimg", "list", "-j"]);
    } catch {
        // Without images, the dialog offers the other sources.
    }
    const zones = [...store.zones.values()].filter(zone => zone.name !== "global" && zone.state === "installed");
    const option = (value, text) => h("option", { value }, text);
    const name = h("input", { name: "name", type: "text", required: true, pattern: "[A-Za-z0-9][A-Za-z0-9_.\\-]*", maxlength: 63, autocomplete: "off" });
    const source = h("select", { name: "source" },
        from ? null : option("sparse", "The software of this host (sparse)"),
        from ? option(`zone ${from}`, snapshot ? `${from} at ${snapshot}` : `Clone of ${from}`) : null,
        from ? [] : zones.map(zone => option(`zone ${zone.name}`, `Clone of ${zone.name}`)),
        from ? [] : images.map(image => option(`image ${image.name ?? image.digest}`, `Image ${image.name ?? image.digest}`)),
        from ? null : option("other", "Image of a catalogue, by name"));
    const image = h("input", { name: "image", type: "text", placeholder: "debian/13", autocomplete: "off" });
    const imageField = field("Name of the image", image);
    const choose = () => { imageField.hidden = source.value !== "other"; };
    source.addEventListener("change", choose);
    choose();
    const boot = h("label", { class: "check" }, h("input", { name: "boot", type: "checkbox", checked: true }), " Boot it at once");
    const progress = h("p", { class: "dim", role: "status", "data-role": "progress" });
    const tell = text => { progress.textContent = visible(text); };
    dialog("Create zone", [field("Name", name), field("Source", source), imageField, h("p", {}, boot), progress], "Create", async values => {
        try {
            for (const words of commandsOf(values, snapshot))
                await runWithProgress(words, tell);
        } finally {
            await refresh();
        }
    });
    name.focus();
}

/** Returns the commands that create a zone as the dialog says. */
export function commandsOf({ name, source, image, boot }, snapshot) {
    const [kind, ...rest] = source.split(" ");
    const of = rest.join(" ");
    const commands = [];
    if (kind === "zone") {
        const at = snapshot ? ["-s", snapshot] : [];
        commands.push(["zoneadm", "-z", name, "clone", "--create", ...at, of]);
    } else if (kind === "sparse") {
        commands.push(["zonecfg", "-z", name, "create"], ["zoneadm", "-z", name, "install"]);
    } else {
        const wanted = kind === "image" ? of : image.trim();
        if (wanted === "")
            throw new Error("expected the name of an image");
        commands.push(["zonecfg", "-z", name, "create", "-b"], ["zoneadm", "-z", name, "install", "-i", wanted]);
    }
    if (boot)
        commands.push(["zoneadm", "-z", name, "boot"]);
    return commands;
}
