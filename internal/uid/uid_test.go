package uid_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

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
		if all := slices.Collect(uid.All(column)); !slices.Equal(all, want) {
			t.Fatalf("All = %v; want %v", all, want)
		}
		var cut []uid.UID
		for rest := column; len(rest) > 0; {
			u, r, err := uid.CutBytes(rest)
			if err != nil {
				t.Fatal(err)
			}
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

func TestDrawnTogether(t *testing.T) {
	t.Parallel()
	at := func(millis uint64, rest string) []byte {
		u := uid.MustParse(fmt.Sprintf("%08x-%04x-7abc-8000-000000000000", millis>>16, millis&0xffff))
		return append([]byte(u), rest...)
	}
	const now = 0x0199_ffff_fffe
	for _, tc := range []struct {
		name          string
		first, second []byte
		want          bool
	}{
		{"the same", at(now, ""), at(now, ""), true},
		{"keys that begin with them", at(now, "/a"), at(now+3, "/b"), true},
		{"the last that are together", at(now, ""), at(now+8, ""), true},
		{"later", at(now, ""), at(now+9, ""), false},
		{"much later", at(now, ""), at(now+1<<40, ""), false},
		{"before", at(now, ""), at(now-1, ""), false},
		{"text", []byte(uid.MustParse("pod-000001")), []byte(uid.MustParse("pod-000002")), false},
		{"less than a uid", []byte{1}, at(now, ""), false},
		{"nothing", nil, nil, false},
	} {
		if got := uid.DrawnTogether(tc.first, tc.second); got != tc.want {
			t.Errorf("%s: %t, want %t", tc.name, got, tc.want)
		}
	}
}
