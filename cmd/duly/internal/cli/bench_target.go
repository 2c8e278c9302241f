package cli

import (
	"os"
	"path/filepath"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/open"
)

// benchTarget is what `duly bench` measures.
type benchTarget struct {
	place
	folder string // that holds the file; "" for a server
	remove func() // what was made for this measurement alone
}

// benchTarget is the engine of --url, else a file in a new folder. A folder
// and not a file alone: an engine puts other files beside its own.
func (a *app) benchTarget(b *benchFlags) (t benchTarget, err error) {
	t.remove = func() {}
	switch {
	case a.url == "":
		parent := b.folder
		if parent == "" {
			parent = "."
		}
		if t.folder, err = os.MkdirTemp(parent, "duly-bench-"); err != nil {
			return t, advise(err, "name a folder that can be written to with --data")
		}
		t.remove = func() { os.RemoveAll(t.folder) }
		forget := a.finally(t.remove)
		remove := t.remove
		t.remove = func() { forget(); remove() }
		t.place = place{url: open.File(filepath.Join(t.folder, "bench.db")), namespace: duly.NamespaceOr(a.namespace)}
	case b.folder != "":
		return t, misusef("--data is for a file of its own; leave it out, or --url")
	default:
		if t.place, err = a.complete(place{url: a.url}); err != nil {
			return t, err
		}
		if path := open.Path(t.url); path != "" { // one that can't be read is for the engine to refuse
			t.folder = filepath.Dir(path)
		}
	}
	if b.syncDelay > 0 && (remote(t.url) || open.Redis(t.url)) {
		return t, misusef("--sync-delay is for a sqlite: file; %s syncs by itself", open.Redact(t.url))
	}
	if b.Backlog.Reopen && (remote(t.url) || open.Redis(t.url)) {
		return t, misusef("--reopen is for a sqlite: file; a server keeps its own open")
	}
	return t, nil
}
