package open

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine"
)

// File returns the URL of a file of the embedded engine.
func File(path string) string {
	// ParseURL unescapes the path, and a ? would begin the options.
	return "sqlite:" + strings.NewReplacer("%", "%25", "?", "%3F").Replace(filepath.ToSlash(path))
}

// Path returns the file of an engine's URL, or "" for the URL of another engine.
func Path(url string) string {
	c, err := sqliteengine.ParseURL(url)
	if err != nil {
		return ""
	}
	return c.Path
}

func openFile(ctx context.Context, url string, o *options) (contract.Engine, error) {
	c, err := sqliteengine.ParseURL(url)
	if err != nil {
		return nil, err
	}
	c.Logger, c.SyncDelay, c.Gather, c.Observe = o.log, o.syncDelay, o.gather, o.observeEngine("sqlite")

	e, err := sqliteengine.Open(ctx, c)
	if err != nil {
		// Returning e would return an interface that is not nil.
		return nil, err
	}
	return e, nil
}
