//go:build unix && race

package processtest

const raceEnabled = true
