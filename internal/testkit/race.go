//go:build race

package testkit

// Raced reports whether the race detector watches. Code then takes 5 to 10 times as long.
const Raced = true

// raceFactor is the factor by which tests wait longer with the race detector.
const raceFactor = 3
