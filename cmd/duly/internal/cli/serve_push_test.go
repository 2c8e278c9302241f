package cli

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dulymq/duly/internal/eventually"
)

// C16.2, C16.13, C16.29: a server sends jobs of duly push --callback to allowed addresses.
func TestServeSendsJobs(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		got <- req.Header.Get("webhook-id") + " " + req.Header.Get("webhook-signature")[:3]
	}))
	t.Cleanup(receiver.Close)
	r := newRig(t)
	data := filepath.Join(t.TempDir(), "data")
	_, errs, stop := r.serve(1, "--data", data, "--push-allow", "127.0.0.0/8", "--json")
	r.useServer(data)
	if code, _, errs := r.real("push", "orders", "x", "--id", "a", "--callback", receiver.URL+"/hook"); code != exitOK {
		t.Fatal(errs)
	}
	if id := eventually.Receive(t, "the request", got); id != "default/orders/a v1," {
		t.Errorf("the request is %s", id)
	}
	if code := stop(); code != exitOK {
		t.Errorf("exit %d, %s", code, errs)
	}
	if !strings.Contains(errs.String(), `msg="worker started" for="HTTP push"`) {
		t.Errorf("the log does not name the worker's purpose: %s", errs)
	}

	// A server with --push=false sends nothing, but still validates URLs.
	delete(r.vars, "DULY_TOKEN")
	_, errs, stop = r.serve(1, "--data", data, "--push=false", "--json")
	r.useServer(data)
	if code, _, errs := r.real("push", "orders", "x", "--callback", receiver.URL); code == exitOK ||
		!strings.Contains(errs, "push.allow") {
		t.Errorf("without push.allow: %d %s", code, errs)
	}
	if code, _, errs := r.real("push", "orders", "x", "--callback", "https://hooks.example/"); code != exitOK {
		t.Error(errs)
	}
	if code := stop(); code != exitOK || strings.Contains(errs.String(), "worker started") {
		t.Errorf("a server with --push=false: exit %d, %s", code, errs)
	}
}

// useServer makes the next commands use the server of a data folder.
func (r *rig) useServer(data string) {
	r.t.Helper()
	left, err := readEndpoint(data)
	if err != nil {
		r.t.Fatal(err)
	}
	r.vars["DULY_URL"], r.vars["DULY_TOKEN"] = left.url, left.token
}

// C16.55, C16.56: the first start creates the file of keys, readable only by its owner. The
// next start reads it. A configured file must exist.
func TestServeKeepsKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	data := filepath.Join(t.TempDir(), "data")
	file := filepath.Join(data, "push.key")
	var keys [2][]byte

	for i := range keys {
		_, _, stop := r.serve(1, "--data", data, "--json")
		stop()
		var err error
		if keys[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}

	if len(keys[0]) == 0 || !bytes.Equal(keys[0], keys[1]) {
		t.Error("the second start does not read the keys of the first")
	}
	if info, err := os.Stat(file); runtime.GOOS != "windows" && (err != nil || info.Mode().Perm() != fs.FileMode(0o600)) {
		t.Errorf("the keys have the mode %v, %v", info.Mode(), err)
	}
	code, _, errs := r.run("serve", "--engine", "model:", "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
		"--data", data, "--push-keys", file+".other")
	if code == exitOK || !strings.Contains(errs, "--push-keys") {
		t.Errorf("a missing file of keys: %d %s", code, errs)
	}
}
