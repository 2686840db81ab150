package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// machine describes the machine of the measurements.
type machine struct {
	system, cpu string
	cores       int
	memory      string
	syncs       map[int][2]time.Duration // p50 and p99, by bytes
}

func thisMachine(dir string) machine {
	m := machine{
		system: runtime.GOOS + "/" + runtime.GOARCH + ", " + runtime.Version(), cores: runtime.GOMAXPROCS(0),
		cpu: field("/proc/cpuinfo", "model name"), memory: field("/proc/meminfo", "MemTotal"),
		syncs: map[int][2]time.Duration{},
	}
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		if p50, p99, err := syncTime(dir, size); err == nil {
			m.syncs[size] = [2]time.Duration{p50, p99}
		}
	}
	return m
}

// field is the first value of a field in a file of /proc, "" if there is none.
func field(file, name string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// syncTime returns the time that the disk takes to sync a number of bytes that were
// appended to a file.
func syncTime(dir string, size int) (p50, p99 time.Duration, err error) {
	f, err := os.CreateTemp(dir, "sync-")
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}()
	b := make([]byte, size)
	list := make([]time.Duration, 0, 300)
	for range cap(list) {
		start := time.Now()
		if _, err := f.Write(b); err != nil {
			return 0, 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, 0, err
		}
		list = append(list, time.Since(start))
	}
	slices.Sort(list)
	return list[len(list)/2], list[len(list)*99/100], nil
}

func (m machine) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; %d cores", m.system, m.cores)
	if m.cpu != "" {
		fmt.Fprintf(&b, " (%s)", m.cpu)
	}
	if m.memory != "" {
		fmt.Fprintf(&b, "; %s of memory", m.memory)
	}
	return b.String()
}
