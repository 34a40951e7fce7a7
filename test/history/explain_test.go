//go:build unix

package history_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// explain says, for each key whose answers no order of its calls explains, how
// far one does, in which states the record is there, and what was to come.
func explain(history []porcupine.Operation) string {
	m := model()
	var text strings.Builder
	for _, ofKey := range m.Partition(history) {
		result, info := porcupine.CheckOperationsVerbose(m, ofKey, checkTimeout)
		if result == porcupine.Ok {
			continue
		}
		longest := longestOf(info)
		fmt.Fprintf(&text, "\n%d of %d calls can be explained, of which the last are", len(longest), len(ofKey))
		state := m.Init()
		for i, operation := range longest {
			_, state = m.Step(state, operation.Input, operation.Output)
			if i >= len(longest)-8 {
				fmt.Fprintf(&text, "\n  %s\n      → %+v", describe(operation), state)
			}
		}
		rest := slices.DeleteFunc(slices.Clone(ofKey), func(o porcupine.Operation) bool {
			return slices.ContainsFunc(longest, func(l porcupine.Operation) bool { return l.Call == o.Call && l.ClientId == o.ClientId })
		})
		slices.SortFunc(rest, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		text.WriteString("\nbut not what comes then:")
		for _, operation := range rest[:min(12, len(rest))] {
			fmt.Fprintf(&text, "\n  %s", describe(operation))
		}
	}
	return text.String()
}

func longestOf(info porcupine.LinearizationInfo) (longest []porcupine.Operation) {
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	return longest
}

// describe shows a call with its times in microseconds.
func describe(o porcupine.Operation) string {
	return fmt.Sprintf("%d–%d µs, client %d: %+v → %+v", o.Call/1000, o.Return/1000, o.ClientId, o.Input, o.Output)
}
