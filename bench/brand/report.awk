# Reads "round row place count cpu wall" and writes the ratios of zones to the host.
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

END {
    count = split(rows, row, " ")
    printf "%d rounds of %s s, kernel %s. Rates are operations per second of CPU time; ratios are\n", rounds, seconds, kernel
    printf "zone to host, with their 95 %% intervals.\n\n"
    printf "| loop | host | sparse zone | lx zone |\n|---|--:|--:|--:|\n"
    printf "{\"rounds\": %d, \"seconds\": %s, \"kernel\": \"%s\", \"rows\": [", rounds, seconds, kernel > json
    for (r = 1; r <= count; r++) {
        printf "%s\n  {\"loop\": \"%s\", \"host_per_cpu_second\": %.1f", (r > 1 ? "," : ""), row[r], typical(row[r], "native") > json
        printf "| %s | %.0f |", row[r], typical(row[r], "native")
        for (p = 1; p <= 2; p++) {
            place = p == 1 ? "sparse" : "lx"
            ratio = interval(row[r], place)
            printf ", \"%s\": {\"ratio\": %.4f, \"low\": %.4f, \"high\": %.4f}", place, ratio, low, high > json
            printf " %.3f (%.3f-%.3f) |", ratio, low, high
        }
        printf "}" > json
        printf "\n"
    }
    printf "\n]}\n" > json
}
