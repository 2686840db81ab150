package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// UnknownCommand refuses arguments of a command that has only sub-commands.
func UnknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return fmt.Errorf("there is no command %q%s", args[0], DidYouMean(args[0], names))
}

// DidYouMean suggests the nearest of some words, nothing if none is near.
func DidYouMean(word string, words []string) string {
	best, nearest := max(1, min(2, len(word)/2), len(word)/4)+1, ""
	for _, w := range words {
		if w == "" {
			continue
		}
		d := distance(word, w)
		if len(word) > 2 && strings.HasPrefix(w, word) {
			d = min(d, 1)
		}
		if d < best && d < len(w) {
			best, nearest = d, w
		}
	}
	if nearest == "" {
		return ""
	}
	return "; did you mean " + nearest + "?"
}

// distance is the Levenshtein distance of two words, where an exchange of two
// neighbouring letters counts once.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			change := 1
			if x[i-1] == y[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}
