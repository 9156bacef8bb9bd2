// Runs the commands of zones. Every command is a list of words; no shell reads them.

import { PREFIX } from "./settings.js";

const OPTIONS = { superuser: "try", err: "message" };

/** Runs a command and returns its output. Fails with the text of standard error. */
export function run(words, input) {
    const process = window.cockpit.spawn([...PREFIX, ...words], OPTIONS);
    process.input(input ?? "");
    return new Promise((resolve, reject) => {
        process.then(resolve, error => reject(new Error(messageOf(error, words))));
    });
}

/** The subcommands of zoneadm that may take long. */
const LONG = ["boot", "clone", "install", "migrate", "suspend", "uninstall"];

/** Runs a command. If it is a long subcommand of zoneadm, calls `tell` with the text of each step, and
 *  fails with the error that the last line has. */
export function runWithProgress(words, tell) {
    const [program, ...rest] = words;
    if (program !== "zoneadm" || !LONG.includes(words[3]))
        return run(words);
    const process = window.cockpit.spawn([...PREFIX, program, "--progress=json", ...rest], OPTIONS);
    let last = null;
    process.stream(splitter(line => {
        const now = progressOf(line);
        if (now?.status !== undefined)
            last = now;
        else if (now?.text)
            tell(now.text);
    }));
    process.input("");
    return new Promise((resolve, reject) => {
        process.then(resolve, error => reject(new Error(last?.error || messageOf(error, words))));
    });
}

/** Returns the text of a line of progress, or the status and error of the last line. Null if the line
 *  is neither. */
export function progressOf(line) {
    let now;
    try {
        now = JSON.parse(line);
    } catch {
        return null;
    }
    if (now.status !== undefined)
        return { status: now.status, error: now.error };
    if (now.unit === "bytes" && now.total)
        return { text: `${now.step} ${Math.floor(now.done * 100 / now.total)} %` };
    return now.step && now.unit !== "zones" ? { text: now.step } : null;
}

/** Runs a command that prints JSON, and returns the value. */
export async function runJson(words) {
    const text = await run(words);
    return text.trim() === "" ? [] : JSON.parse(text);
}

/** Runs a command that prints a JSON object in each line, and calls `take` for each. `end` gets the
 *  error with which the command ended, or null. Returns a function that ends the command. */
export function follow(words, take, end) {
    const process = window.cockpit.spawn([...PREFIX, ...words], OPTIONS);
    let closed = false;
    const lines = splitter(line => {
        let value;
        try {
            value = JSON.parse(line);
        } catch {
            closed || end(new Error(`${words[0]}: a line is no JSON: ${line.slice(0, 80)}`));
            return;
        }
        take(value);
    });
    process.stream(lines);
    process.then(
        () => closed || end(null),
        error => closed || end(new Error(messageOf(error, words))),
    );
    return () => {
        closed = true;
        process.close("terminated");
    };
}

/** Returns a function that takes pieces of text, which may end anywhere, and calls `take` for each
 *  complete line that is not empty. */
export function splitter(take) {
    let rest = "";
    return piece => {
        const lines = (rest + piece).split("\n");
        rest = lines.pop();
        lines.filter(line => line !== "").forEach(take);
    };
}

/** Returns true for the error of a program that is older than this page and lacks a command. */
export function isUnknownCommand(error) {
    return /unknown subcommand|unexpected argument|invalid option|is for root alone|No such file or directory/i.test(error.message);
}

function messageOf(error, words) {
    if (error.problem === "not-found")
        return `${words[0]}: not found. Is the package zones installed?`;
    if (error.problem === "access-denied")
        return `${words[0]}: permission denied`;
    return (error.message ?? `${words[0]} failed`).trim();
}
