package uid_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
)

func TestTextSurvivesPacking(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"01890a5d-ac96-774b-bcce-b302099a8057",
		"01890A5D-AC96-774B-BCCE-B302099A8057", // another spelling is another uid
		"01890a5dac96774bbcceb302099a8057",
		"a",
		"web-1",
		strings.Repeat("x", uid.MaxLength),
	} {
		u, err := uid.Parse(text)
		if err != nil {
			t.Fatalf("Parse(%q): %v", text, err)
		}
		if got := u.String(); got != text {
			t.Errorf("Parse(%q).String() = %q", text, got)
		}
		if !u.Valid() {
			t.Errorf("Parse(%q) is not Valid", text)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                     "must not be empty",
		"a.b":                                  `has '.'`,
		"a b":                                  `has ' '`,
		"ä":                                    "letters, digits and hyphens",
		"*":                                    `has '*'`,
		strings.Repeat("x", uid.MaxLength+1):   "at most 128",
		"01890a5d_ac96-774b-bcce-b302099a8057": `has '_'`,
	} {
		if _, err := uid.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): got error %v, want one with %q", text, err, want)
		}
	}
}

func TestColumn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOf(rapid.OneOf(
			rapid.StringMatching(`[A-Za-z0-9-]{1,128}`),
			rapid.Just("01890a5d-ac96-774b-bcce-b302099a8057"),
		)).Draw(t, "texts")
		var want []uid.UID
		for _, text := range texts {
			want = append(want, uid.MustParse(text))
		}
		column := uid.Pack(nil, want...)
		got, err := uid.Unpack(nil, column)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("Unpack = %v, %v; want %v", got, err, want)
		}
		if n, err := uid.Count(column); err != nil || n != len(want) {
			t.Fatalf("Count = %d, %v; want %d", n, err, len(want))
		}
		if all := slices.Collect(uid.All(column)); !slices.Equal(all, want) {
			t.Fatalf("All = %v; want %v", all, want)
		}
		var cut []uid.UID
		for rest := column; len(rest) > 0; {
			u, r, err := uid.CutBytes(rest)
			must.Succeed(t, err)
			cut, rest = append(cut, u), r
		}
		if !slices.Equal(cut, want) {
			t.Fatalf("CutBytes = %v; want %v", cut, want)
		}
	})
}

func TestUnpackMalformed(t *testing.T) {
	t.Parallel()
	good := uid.New()
	for name, column := range map[string]string{
		"truncated UUID": string(good[:10]),
		"truncated text": "\x02\x05abc",
		"empty text":     "\x02\x00",
		"unknown tag":    "\x03abcdefghijklmnopqrst",
		"garbage behind": string(good) + "\x02",
	} {
		if got, err := uid.Unpack(nil, []byte(column)); err == nil {
			t.Errorf("%s: Unpack = %v, want an error", name, got)
		}
		if got, err := uid.Count([]byte(column)); err == nil {
			t.Errorf("%s: Count = %v, want an error", name, got)
		}
	}
}

func TestNewIsOrderedByTime(t *testing.T) {
	t.Parallel()
	last := uid.New()
	for range 1000 {
		u := uid.New()
		if u <= last {
			t.Fatalf("%s does not sort behind %s", u, last)
		}
		last = u
	}
}

func FuzzParse(f *testing.F) {
	f.Add("01890a5d-ac96-774b-bcce-b302099a8057")
	f.Add("web-1")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := uid.Parse(text)
		if err != nil {
			return
		}
		if u.String() != text || !u.Valid() {
			t.Fatalf("Parse(%q) = %q, valid %v", text, u.String(), u.Valid())
		}
	})
}

func TestPlace(t *testing.T) {
	t.Parallel()
	packed := []byte(uid.MustParse("01999999-9999-7abc-8000-000000000000"))
	for _, tc := range []struct {
		name string
		b    []byte
		want uint64
		ok   bool
	}{
		{"a UUID", packed, 0x0199_9999_9999_7abc, true},
		{"a key that begins with one", append(packed, "/a"...), 0x0199_9999_9999_7abc, true},
		{"text", []byte(uid.MustParse("pod-000001")), 0, false},
		{"less than that", packed[:8], 0, false},
		{"a name", []byte("pods/a"), 0, false},
		{"nothing", nil, 0, false},
	} {
		if got, ok := uid.Place(tc.b); got != tc.want || ok != tc.ok {
			t.Errorf("%s: %x, %t, want %x, %t", tc.name, got, ok, tc.want, tc.ok)
		}
	}
}
