package open

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine"
)

// File is the URL of a file of the embedded engine.
func File(path string) string {
	return "sqlite:" + strings.NewReplacer("%", "%25", "?", "%3F").Replace(filepath.ToSlash(path))
}

// Path is the file that the URL of an engine names; "" where it names none.
func Path(url string) string {
	c, err := sqliteengine.ParseURL(url)
	if err != nil {
		return ""
	}
	return c.Path
}

func file(ctx context.Context, url string, o *options) (contract.Engine, error) {
	c, err := sqliteengine.ParseURL(url)
	if err != nil {
		return nil, err
	}
	c.Logger, c.SyncDelay, c.Gather, c.Observe = o.log, o.syncDelay, o.gather, o.of("sqlite")
	e, err := sqliteengine.Open(ctx, c)
	if err != nil {
		return nil, err // a nil *Engine would be no nil Contract
	}
	return e, nil
}
