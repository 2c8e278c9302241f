package cli

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/certtest"
	"github.com/dulymq/duly/internal/model"
)

// C15.42: commands on the machine of a server with TLS trust the certificate in its data
// folder. Other clients need its authority.
func TestCommandsUseTLS(t *testing.T) {
	t.Parallel()
	ca := certtest.NewCA(t, "ca")
	api, admin, me := ca.Server("api", "queue.example.com"), ca.Server("admin", "127.0.0.1"), ca.Client("me")
	r := newRig(t)
	r.engine = model.New(model.Config{})
	t.Cleanup(func() { r.engine.Close() })
	data := filepath.Join(t.TempDir(), "data")
	_, errs, stop := r.serve(1, "--data", data, "--json", "--tls-cert", api.Cert, "--tls-key", api.Key,
		"--admin-tls-cert", admin.Cert, "--admin-tls-key", admin.Key, "--admin-tls-client-ca", ca.File)
	t.Cleanup(func() {
		if code := stop(); code != exitOK {
			t.Errorf("serve: exit %d, %s", code, errs.String())
		}
	})
	r.vars = map[string]string{"DULY_DATA": data}
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	left, err := readEndpoint(data)
	if err != nil || !strings.HasPrefix(left.url, "https://") || !strings.HasPrefix(left.adminURL, "https://") {
		t.Fatalf("stored %+v, %v", left, err)
	}
	with := func(url string) string { return strings.Replace(url, "://", "://"+left.token+"@", 1) }
	mine := []string{"--client-cert", me.Cert, "--client-key", me.Key}

	for _, tt := range []struct {
		args []string
		code int
		want string // expected text of standard error
	}{
		{[]string{"push", "q", "x", "--json"}, exitOK, ""}, // the certificate has another name and authority
		{append([]string{"check"}, mine...), exitOK, ""},
		{[]string{"check"}, exitFailed, "duly: unavailable: "}, // an alert or a connection reset
		{append([]string{"check", "--admin-url", with(left.adminURL), "--ca", ca.File}, mine...), exitOK, ""},
		{[]string{"stats", "q", "--url", with(left.url)}, exitFailed,
			"if it is the right server, pass the authority of its certificate: --ca FILE"},
		// The certificate is for another name.
		{[]string{"stats", "q", "--url", with(left.url), "--ca", ca.File}, exitFailed, "127.0.0.1"},
		{[]string{"stats", "q", "--ca", filepath.Join(data, "none")}, exitUsage, "--ca names a file that can't be read"},
		{[]string{"stats", "q", "--ca", me.Key}, exitUsage, "--ca has no certificate in it"},
		{[]string{"stats", "q", "--client-cert", me.Cert}, exitUsage, "--client-key is not given"},
		{[]string{"stats", "q", "--url", strings.Replace(with(left.url), "https:", "http:", 1)}, exitFailed,
			"speaks TLS; write https://"},
		{[]string{"stats", "q", "--url", strings.Replace(plain.URL, "http:", "https:", 1)}, exitFailed,
			"does not use TLS; write http:// instead of https://\n"},
	} {
		code, _, errs := r.runRemote(tt.args...)
		if code != tt.code || !strings.Contains(errs, tt.want) || tt.want == "" && errs != "" ||
			strings.Contains(errs, left.token) {
			t.Errorf("%v: exit %d, %q, want %q", tt.args, code, errs, tt.want)
		}
	}

	if err := os.WriteFile(filepath.Join(data, certFile), []byte(read1(t, admin.Cert)), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := r.runRemote("stats", "q")
	if code != exitFailed || !strings.Contains(stderr, errOtherCertificate.Error()) {
		t.Errorf("another certificate than the stored one: exit %d, %q", code, stderr)
	}
}

// A server that requires a client certificate ends the connection with an alert. The hint
// names the flags for a certificate.
func TestMissingClientCertificateHint(t *testing.T) {
	t.Parallel()
	cert := certtest.NewCA(t, "ca").Server("api", "127.0.0.1")
	pair, err := tls.LoadX509KeyPair(cert.Cert, cert.Key)
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		config := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}
		tls.Server(there, config).Handshake()
	}()
	client := tls.Client(here, &tls.Config{InsecureSkipVerify: true})
	_, err = client.Read(make([]byte, 1))

	err = withTLSHint(&duly.Error{Code: duly.CodeUnavailable, Message: "no answer", Cause: err})
	hint := new(app).hint(nil, duly.CodeUnavailable, err)
	if !strings.Contains(hint, "--client-cert FILE --client-key FILE") {
		t.Errorf("the hint of %v is %q", errors.Unwrap(err), hint)
	}
}

// At the start the log names a private key that other users can read, and no other key.
func TestServeWarnsAboutReadableKey(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no mode")
	}
	r := newRig(t)
	ca := certtest.NewCA(t, "ca")
	api, admin := ca.Server("api", "127.0.0.1"), ca.Server("admin", "127.0.0.1")
	if err := errors.Join(os.Chmod(api.Key, 0o644), os.Chmod(admin.Key, 0o600)); err != nil {
		t.Fatal(err)
	}
	_, errs, stop := r.serve(1, "--data", filepath.Join(t.TempDir(), "data"), "--json", "--tls-cert", api.Cert,
		"--tls-key", api.Key,
		"--admin-tls-cert", admin.Cert, "--admin-tls-key", admin.Key)
	stop()
	log := errs.String()
	if strings.Count(log, "other users may know the private key") != 1 || !strings.Contains(log, "setting=tls.key") ||
		!strings.Contains(log, api.Key+" can be read by others (mode 0644)") {
		t.Error(log)
	}
}

func read1(t *testing.T, path string) string {
	text, _ := read(t, path)
	return text
}

// C15.42: a server that starts with plain HTTP removes its stored certificates. An
// incomplete TLS configuration is rejected with the setting's name.
func TestServeRejectsIncompleteTLS(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ca := certtest.NewCA(t, "ca")
	one, other := ca.Server("one", "127.0.0.1"), ca.Server("other", "127.0.0.1")

	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--tls-cert", one.Cert}, "--tls-cert needs tls.key too"},
		{[]string{"--tls-key", one.Key}, "--tls-key needs tls.cert too"},
		{[]string{"--admin-tls-client-ca", ca.File}, "--admin-tls-client-ca needs admin_tls.cert too"},
		{[]string{"--tls-cert", one.Cert, "--tls-key", other.Key}, "--tls-cert and its key can't be used"},
		{[]string{"--tls-cert", one.Cert, "--tls-key", one.Key, "--tls-client-ca", one.Key},
			"--tls-client-ca has no certificate in it"},
		{[]string{"--tls-cert", "none.pem", "--tls-key", "none.key"},
			"--tls-cert names a file that can't be read: none.pem: no such file"},
	} {
		code, out, errs := r.run(append([]string{"config", "check"}, tt.args...)...)
		if code != exitUsage || !strings.Contains(out, tt.want) {
			t.Errorf("%v: exit %d, %q, %q, want %q", tt.args, code, out, errs, tt.want)
		}
	}

	data := filepath.Join(t.TempDir(), "data")

	for _, args := range [][]string{{"--tls-cert", one.Cert, "--tls-key", one.Key}, nil} {
		_, _, stop := r.serve(1, append([]string{"--data", data, "--json"}, args...)...)
		_, err := os.Stat(filepath.Join(data, certFile))
		if stop(); (err == nil) != (args != nil) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
