//go:build unix && !race

package processtest

const raceEnabled = false
