package open

import (
	"context"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine"
)

// Restore replaces the file that the URL names by a backup, as
// [sqliteengine.Restore] does. The path is that of the URL. A URL of anything but
// a file is refused with [duly.ErrUnsupported].
func Restore(ctx context.Context, url string, p sqliteengine.RestoreParams) (sqliteengine.Restored, error) {
	scheme, _, _ := strings.Cut(url, ":")
	switch {
	case onRedis(scheme):
		return sqliteengine.Restored{}, contract.Errorf(duly.CodeUnsupported,
			"a backup is the file of a store; a Redis is restored by what its server keeps, the files of RDB and AOF")
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
