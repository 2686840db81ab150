package registry

// OccupyOpening does what a call does that opens the bucket and gets no reply before release.
func (g *Registry) OccupyOpening() (release func()) {
	g.opening <- struct{}{}
	return g.opening.release
}

// OccupyReading does what a call does that reads the bucket and gets no reply before release.
func (g *Registry) OccupyReading() (release func()) {
	g.reading <- struct{}{}
	return g.reading.release
}
