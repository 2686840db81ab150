package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// kept is the output of benchmarks in a file, a line for each. A nil kept is empty, and
// adds nothing.
type kept struct {
	f       *os.File
	program string // the hash of the programs: what others did does not count
	results map[string][]*result
}

type keptLine struct {
	Program string  `json:"program"`
	Key     string  `json:"key"`
	Result  *result `json:"result"`
}

func openKept(name string, programs ...string) (*kept, error) {
	sum := sha256.New()
	for _, program := range programs {
		b, err := os.ReadFile(program)
		if err != nil {
			return nil, err
		}
		sum.Write(b)
	}
	k := &kept{program: hex.EncodeToString(sum.Sum(nil)), results: map[string][]*result{}}
	var err error
	if k.f, err = os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644); err != nil {
		return nil, err
	}
	lines, whole := bufio.NewReader(k.f), int64(0)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// A line without an end is incomplete.
			return k, k.f.Truncate(whole)
		}
		if err != nil {
			return nil, errors.Join(err, k.close())
		}
		whole += int64(len(line))
		var l keptLine
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", name, err), k.close())
		}
		if l.Program == k.program {
			k.results[l.Key] = append(k.results[l.Key], l.Result)
		}
	}
}

// find returns a result that was not returned before, nil if there is none: a benchmark
// that is run several times has as many results.
func (k *kept) find(key string) *result {
	if k == nil || len(k.results[key]) == 0 {
		return nil
	}
	r := k.results[key][0]
	k.results[key] = k.results[key][1:]
	return r
}

func (k *kept) add(key string, r *result) error {
	if k == nil {
		return nil
	}
	line, err := json.Marshal(keptLine{k.program, key, r})
	if err == nil {
		_, err = k.f.Write(append(line, '\n'))
	}
	return err
}

// rate returns a rate that is kept, or the result of measure.
func (k *kept) rate(key string, measure func() (float64, error)) (float64, error) {
	if r := k.find(key); r != nil {
		return r.ObjectsPerSecond, nil
	}
	v, err := measure()
	if err != nil {
		return 0, err
	}
	return v, k.add(key, &result{ObjectsPerSecond: v})
}

func (k *kept) close() error { return k.f.Close() }
