# Reads "round row place count cpu wall" and writes the ratios of places to the host.
{ rate[$1, $2, $3] = $4 / $5 }

function interval(row, place,    i, n, x, sum, square, mean, deviation, t) {
    n = sum = square = 0
    for (i = 0; i < rounds; i++) {
        x = log(rate[i, row, place] / rate[i, row, "native"])
        sum += x; square += x * x; n++
    }
    mean = sum / n
    deviation = n > 1 ? sqrt((square - n * mean * mean) / (n - 1) + 1e-18) : 0
    # Student's t for 95 %, good to 0.01 from ten rounds on.
    t = n > 1 ? 1.96 + 2.46 / (n - 1) : 0
    low = exp(mean - t * deviation / sqrt(n)); high = exp(mean + t * deviation / sqrt(n))
    return exp(mean)
}

function typical(row, place,    i, sum) {
    sum = 0
    for (i = 0; i < rounds; i++) sum += log(rate[i, row, place])
    return exp(sum / rounds)
}

# What was left of the speed in an lx zone of Solaris in 2010; the middle where a span was
# published, nothing where nothing was.
function in_2010(row) {
    if (row == "execl" || row == "spawn") return 0.455
    if (row ~ /^shell/) return 0.49
    if (row == "pipe") return 0.65
    if (row ~ /copy/) return 0.80
    return 0
}

function bar(y, ratio, colour, text,    width) {
    width = (ratio > 1.2 ? 1.2 : ratio) * 500
    printf "<rect x=\"90\" y=\"%d\" width=\"%.1f\" height=\"10\" fill=\"%s\"/>\n", y, width, colour > svg
    printf "<text x=\"%.1f\" y=\"%d\" font-size=\"10\">%s</text>\n", 94 + width, y + 9, text > svg
}

function plot(    r, p, y, height, i, ratio) {
    split("#2f6f9f #1d9a8a #7fb2d6 #8fd0c0 #9a5fb0 #d08a2e", colour, " ")
    height = 70
    for (r = 1; r <= count; r++) height += 8 + 12 * (places_count + (in_2010(row[r]) > 0))
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1010 %d\" font-family=\"sans-serif\" font-size=\"13\">\n", height > svg
    printf "<title>Operations per second of CPU time, the host is 1</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n" > svg
    printf "<text x=\"10\" y=\"22\" font-size=\"16\">Operations per second of CPU time, the host is 1</text>\n" > svg
    for (p = 1; p <= places_count + 1; p++) {
        printf "<rect x=\"%d\" y=\"34\" width=\"12\" height=\"12\" fill=\"%s\"/>", 10 + (p - 1) * 140, (p > places_count ? "#999999" : colour[p]) > svg
        printf "<text x=\"%d\" y=\"45\">%s</text>\n", 27 + (p - 1) * 140, (p > places_count ? "lx of Solaris, 2010" : title[place[p]]) > svg
    }
    y = 60
    for (r = 1; r <= count; r++) {
        printf "<text x=\"82\" y=\"%d\" text-anchor=\"end\">%s</text>\n", y + 10, row[r] > svg
        for (p = 1; p <= places_count; p++) {
            ratio = interval(row[r], place[p])
            bar(y, ratio, colour[p], sprintf("%.2f", ratio)); y += 12
        }
        if (in_2010(row[r])) { bar(y, in_2010(row[r]), "#999999", sprintf("%.2f", in_2010(row[r]))); y += 12 }
        y += 8
    }
    printf "<path d=\"M590 54V%d\" stroke=\"#444444\" stroke-dasharray=\"3\"/>\n</svg>\n", height - 8 > svg
}

END {
    count = split(rows, row, " ")
    places_count = split(places, place, " ")
    title["sparse"] = "sparse zone"; title["lx"] = "lx zone"; title["podman"] = "podman"
    title["open"] = "sparse, unfiltered"; title["lxopen"] = "lx, unfiltered"
    title["lxown"] = "lx, own root"
    printf "%d rounds of %s s, kernel %s, load %s when it began. Rates are operations per second of\n", rounds, seconds, kernel, load
    printf "CPU time; ratios are to the host, with their 95 %% intervals.\n\n"
    printf "| loop | host |"
    for (p = 1; p <= places_count; p++) printf " %s |", title[place[p]]
    printf "\n|---|--:|"
    for (p = 1; p <= places_count; p++) printf "--:|"
    printf "\n"
    printf "{\"rounds\": %d, \"seconds\": %s, \"kernel\": \"%s\", \"load\": %s, \"rows\": [", rounds, seconds, kernel, load > json
    for (r = 1; r <= count; r++) {
        printf "%s\n  {\"loop\": \"%s\", \"host_per_cpu_second\": %.1f", (r > 1 ? "," : ""), row[r], typical(row[r], "native") > json
        printf "| %s | %.0f |", row[r], typical(row[r], "native")
        for (p = 1; p <= places_count; p++) {
            ratio = interval(row[r], place[p])
            printf ", \"%s\": {\"ratio\": %.4f, \"low\": %.4f, \"high\": %.4f}", place[p], ratio, low, high > json
            printf " %.3f (%.3f-%.3f) |", ratio, low, high
        }
        printf "}" > json
        printf "\n"
    }
    printf "\n]}\n" > json
    plot()
}
