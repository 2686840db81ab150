package lifecycle_test

import (
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

func TestRetention(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]lifecycle.Retention{
		"all":          {},
		"1MiB":         {Bytes: 1 << 20},
		"2048KiB":      {Bytes: 2 << 20},
		"10GiB":        {Bytes: 10 << 30},
		"1PiB":         {Bytes: 1 << 50},
		"10m":          {Age: 10 * time.Minute},
		"36h":          {Age: 36 * time.Hour},
		"30d":          {Age: 30 * day},
		"3650d":        {Age: 3650 * day},
		"1GiB,7d":      {Bytes: 1 << 30, Age: 7 * day},
		"90m, 100MiB":  {Bytes: 100 << 20, Age: 90 * time.Minute},
		"87600h,1TiB":  {Bytes: 1 << 40, Age: 3650 * day},
		"1536MiB,2h3m": {Bytes: 1536 << 20, Age: 2*time.Hour + 3*time.Minute},
	} {
		r, err := lifecycle.ParseRetention(text)
		if err != nil || r != want {
			t.Errorf("%q is %+v (%v), want %+v", text, r, err, want)
		}
		if again, err := lifecycle.ParseRetention(r.String()); err != nil || again != want {
			t.Errorf("%q is written as %q, which is %+v (%v)", text, r, again, err)
		}
	}
	for _, text := range []string{
		"", " ", ",", "all,1GiB", "1GiB,", "1GiB,2GiB", "1h,2h", "0", "1", "1024", "1GB", "1.5GiB", "-1GiB", "+1GiB", "1023KiB", "2PiB", "1025TiB",
		"99999999999999999999GiB", "9223372036854775807PiB", "0d", "-1d", "3651d", "4294967296d", "9m", "87601h", "-36h", "forever", "GiB", "d", "ALL",
	} {
		if r, err := lifecycle.ParseRetention(text); err == nil || r != (lifecycle.Retention{}) {
			t.Errorf("%q is accepted as %+v", text, r)
		}
	}
}
