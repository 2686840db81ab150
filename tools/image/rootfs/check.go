package rootfs

import (
	"fmt"
	"runtime/debug"
	"strings"
)

// Check returns an error unless a program has the version that the labels of its image say, and, unless revision is
// empty, was built from this commit.
func Check(info *debug.BuildInfo, version, revision string) error {
	if have := Version(info); have != strings.TrimPrefix(version, "v") {
		return fmt.Errorf("the program has the version %s, not %s%s", have, strings.TrimPrefix(version, "v"), hint(have))
	}
	if have := Setting(info, "vcs.revision"); revision != "" && have != revision {
		return fmt.Errorf("the program was built from the commit %q, not %s", have, revision)
	}
	return nil
}

// hint says what to do about a version that is another one than expected.
func hint(have string) string {
	switch {
	case strings.HasSuffix(have, "+dirty"):
		return ": the work tree has changes that are not committed"
	case have == Development:
		return ": Go takes the version from a tag of the git repository, which was not there"
	}
	return ""
}

// Setting returns a setting of the build that go version -m prints.
func Setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
