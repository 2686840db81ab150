package replay

import (
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
