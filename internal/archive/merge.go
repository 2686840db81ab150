package archive

// Small segments are merged in runs. A segment is small below 1/smallPart of the size of a complete segment, a run has at least
// leastMerged of them, and the result at most 1/mergedPart of that size, so that the log is cut in parts that
// are not much larger than before.
const (
	smallPart   = 128
	mergedPart  = 8
	leastMerged = 16
)

// Mergeable returns the first run of small segments that should become one, nil if there is none. The segments must be
// sorted and without overlap, and complete is the size of a complete one in bytes. Those with commits after
// until, and those for which skip is true, are left as they are.
func Mergeable(segments []Item, until uint64, complete int64, skip func(Item) bool) []Item {
	var run []Item
	size := int64(0)
	for _, s := range segments {
		if s.Last > until {
			break
		}
		small := s.Entry.Size < complete/smallPart && !skip(s)
		if small && len(run) > 0 && s.First == run[len(run)-1].Last+1 && size+s.Entry.Size <= complete/mergedPart {
			run, size = append(run, s), size+s.Entry.Size
			continue
		}
		if len(run) >= leastMerged {
			return run
		}
		if run, size = nil, 0; small {
			run, size = []Item{s}, s.Entry.Size
		}
	}
	if len(run) < leastMerged {
		return nil
	}
	return run
}

// Covered returns those of the segments, which must be sorted, whose commits one larger segment has, with that.
func Covered(segments []Item) (covered map[Item]Item) {
	covered = map[Item]Item{}
	for i, s := range segments {
		for j, o := range segments {
			if i != j && o.First <= s.First && o.Last >= s.Last && o.Last-o.First > s.Last-s.First {
				covered[s] = o
				break
			}
			if o.First > s.First {
				break
			}
		}
	}
	return covered
}

// WithoutOverlap leaves out segments whose commits others have. First and Last of the result
// increase.
func WithoutOverlap(all []Item) (segments []Item) {
	for len(all) > 0 {
		chain := Chain(all, all[0].First)
		segments = append(segments, chain...)
		end := chain[len(chain)-1].Last
		for len(all) > 0 && all[0].First <= end {
			all = all[1:]
		}
	}
	return segments
}
