package natsstore

import (
	"fmt"
	"strconv"
	"strings"
)

// sequencesKey is the key of an object's metadata for the sequences of its chunks, after
// the time when their stream was created: in a copy of the stream they have other sequences.
const sequencesKey = "coppice-sequences"

// runs are ascending sequences: several uploads share a stream, but most chunks of one
// follow each other.
type runs []run

// run is consecutive sequences.
type run struct{ first, count uint64 }

func (r *runs) add(sequence uint64) {
	if n := len(*r); n > 0 && (*r)[n-1].first+(*r)[n-1].count == sequence {
		(*r)[n-1].count++
		return
	}
	*r = append(*r, run{sequence, 1})
}

// from returns the sequence of a chunk, and how many chunks from it on have consecutive
// sequences; 0 if there is no such chunk.
func (r runs) from(chunk uint64) (sequence, count uint64) {
	for _, run := range r {
		if chunk < run.count {
			return run.first + chunk, run.count - chunk
		}
		chunk -= run.count
	}
	return 0, 0
}

// String returns for instance "17+64,90+3": 64 sequences from 17 on, and 3 from 90 on.
func (r runs) String() string {
	parts := make([]string, len(r))
	for i, run := range r {
		parts[i] = fmt.Sprintf("%d+%d", run.first, run.count)
	}
	return strings.Join(parts, ",")
}

// parseRuns parses what String returns. It reports false for anything else.
func parseRuns(s string) (r runs, ok bool) {
	for part := range strings.SplitSeq(s, ",") {
		first, count, _ := strings.Cut(part, "+")
		f, err1 := strconv.ParseUint(first, 10, 64)
		c, err2 := strconv.ParseUint(count, 10, 64)
		if err1 != nil || err2 != nil || f == 0 || c == 0 {
			return nil, false
		}
		r = append(r, run{f, c})
	}
	return r, true
}
