package open

import (
	"context"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine"
)

// Restore replaces the file of a URL by a backup, see [sqliteengine.Restore]. The URL has
// the path. Restore returns [duly.ErrUnsupported] for the URL of another engine.
func Restore(ctx context.Context, url string, p sqliteengine.RestoreParams) (sqliteengine.Restored, error) {
	scheme, _, _ := strings.Cut(url, ":")
	switch {
	case isRedis(scheme):
		return sqliteengine.Restored{}, contract.Errorf(duly.CodeUnsupported,
			"a backup is the file of a store; restore a Redis by the RDB and AOF files of its server")
	case scheme == "http", scheme == "https":
		return sqliteengine.Restored{}, contract.Errorf(duly.CodeUnsupported,
			"a server can't replace the store that it has open; stop it, and name the store by sqlite:PATH")
	}

	c, err := sqliteengine.ParseURL(url)
	if err != nil {
		return sqliteengine.Restored{}, err
	}
	p.Path = c.Path
	return sqliteengine.Restore(ctx, p)
}
