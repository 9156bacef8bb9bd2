// Small plots of the last samples.

import { POINTS } from "./store.js";

/** Returns a canvas of this size in CSS pixels. */
export function canvas(width, height, label) {
    const element = document.createElement("canvas");
    element.style.width = `${width}px`;
    element.style.height = `${height}px`;
    element.width = width * devicePixelRatio;
    element.height = height * devicePixelRatio;
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", label);
    return element;
}

/** Draws values into a canvas. The upper edge is `most`, or the largest value if that is more. */
export function draw(element, values, most) {
    const context = element.getContext("2d");
    const [width, height] = [element.width, element.height];
    const top = Math.max(most || 0, ...values) || 1;
    const x = at => width - (values.length - 1 - at) * width / (POINTS - 1);
    const y = value => height - 1 - value / top * (height - 3);
    context.clearRect(0, 0, width, height);
    if (values.length === 0)
        return;
    const colour = getComputedStyle(element).color;
    context.fillStyle = colour;
    context.strokeStyle = colour;
    context.lineWidth = devicePixelRatio;
    context.beginPath();
    values.forEach((value, at) => at ? context.lineTo(x(at), y(value)) : context.moveTo(x(at), y(value)));
    context.stroke();
    context.lineTo(width, height);
    context.lineTo(x(0), height);
    context.globalAlpha = 0.15;
    context.fill();
    context.globalAlpha = 1;
}
