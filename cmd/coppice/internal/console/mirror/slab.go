package mirror

// slabSize is the number of values that a slab allocates at once.
const slabSize = 1 << 12

// slab has values by number, from 1 on. It grows without copying them, and uses the numbers of values that were freed again.
type slab[T any] struct {
	chunks []*[slabSize]T
	last   uint32 // the highest number in use
	free   []uint32
}

// at returns the value with a number. The pointer stays valid.
func (s *slab[T]) at(id uint32) *T { return &s.chunks[id/slabSize][id%slabSize] }

// add returns the number of a new zero value.
func (s *slab[T]) add() uint32 {
	if n := len(s.free); n > 0 {
		id := s.free[n-1]
		s.free = s.free[:n-1]
		return id
	}
	s.last++
	if int(s.last/slabSize) >= len(s.chunks) {
		s.chunks = append(s.chunks, new([slabSize]T))
	}
	return s.last
}

// remove frees a value.
func (s *slab[T]) remove(id uint32) {
	var zero T
	*s.at(id) = zero
	s.free = append(s.free, id)
}
