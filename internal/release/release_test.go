package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../.."

var (
	stamp = Stamp{Version: "v1.2.3", Commit: strings.Repeat("ab", 20), Date: "2026-11-26T01:35:46Z"}
	date  = time.Date(2026, 11, 26, 1, 35, 46, 0, time.UTC)
	linux = Target{"linux", "amd64"}
)

var sample = []entry{
	{name: "duly", mode: 0o755, body: []byte("binary")},
	{name: "LICENSE", mode: 0o644, body: []byte("free")},
}

func TestArchiveIsDeterministic(t *testing.T) {
	t.Parallel()
	for _, platform := range []Target{linux, {"windows", "amd64"}} {
		var sums [2][32]byte
		for i := range sums {
			b := &builder{Config: Config{Out: t.TempDir(), Version: stamp.Version}, date: date}
			if err := b.archive(platform, sample); err != nil {
				t.Fatal(err)
			}
			files, err := os.ReadDir(b.Out)
			if err != nil || len(files) != 1 {
				t.Fatalf("%s: %d files, %v", platform, len(files), err)
			}
			body, err := os.ReadFile(filepath.Join(b.Out, files[0].Name()))
			if err != nil {
				t.Fatal(err)
			}
			sums[i] = sha256.Sum256(body)
		}
		if sums[0] != sums[1] {
			t.Errorf("%s: two archives of the same files differ", platform)
		}
	}
}

func TestArchiveHasNoOwnerAndOneTime(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := writeTar(&out, sample, date); err != nil {
		t.Fatal(err)
	}

	r := tar.NewReader(&out)
	for _, want := range sample {
		h, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil || h.Name != want.name || h.Mode != want.mode || !bytes.Equal(body, want.body) {
			t.Errorf("%s: mode %o, body %q, %v", h.Name, h.Mode, body, err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || !h.ModTime.Equal(date) {
			t.Errorf("%s: owner %d:%d %q:%q, time %s", h.Name, h.Uid, h.Gid, h.Uname, h.Gname, h.ModTime)
		}
	}
}

func TestZipHasModesAndFolder(t *testing.T) {
	t.Parallel()
	b := &builder{Config: Config{Out: t.TempDir(), Version: stamp.Version}, date: date}
	if err := b.archive(Target{"windows", "arm64"}, sample); err != nil {
		t.Fatal(err)
	}
	z, err := zip.OpenReader(filepath.Join(b.Out, "duly_1.2.3_windows_arm64.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for i, f := range z.File {
		if want := "duly_1.2.3_windows_arm64/" + sample[i].name; f.Name != want {
			t.Errorf("file %d is %s, want %s", i, f.Name, want)
		}
		if got := int64(f.Mode().Perm()); got != sample[i].mode || !f.Modified.Equal(date) {
			t.Errorf("%s: mode %o, time %s", f.Name, got, f.Modified)
		}
	}
}

// readTar returns the regular files of an archive by name.
func readTar(t *testing.T, archive io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			files[h.Name] = body
		}
	}
}

func decode[T any](t *testing.T, body []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v: %q", err, body)
	}
	return v
}

// Each descriptor has the digest and the size of its blob, and the layer has the
// digest of its uncompressed bytes in the configuration.
func TestImageLayoutIsConsistent(t *testing.T) {
	t.Parallel()
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := writeImage(out, linux, stamp, date, []byte("binary"), []byte("roots")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two images of the same binary differ")
	}

	files := readTar(t, &first)
	blob := func(d descriptor) []byte {
		t.Helper()
		body, ok := files[blobName(d.Digest)]
		if !ok || len(body) != d.Size || digest(body) != d.Digest {
			t.Fatalf("blob %s: found %v, %d bytes, want %d", d.Digest, ok, len(body), d.Size)
		}
		return body
	}
	top := decode[index](t, files["index.json"])
	m := decode[manifest](t, blob(top.Manifests[0]))
	config := decode[imageConfig](t, blob(m.Config))
	packed, err := gzip.NewReader(bytes.NewReader(blob(m.Layers[0])))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(packed)
	if err != nil || digest(plain) != config.RootFS.DiffIDs[0] {
		t.Errorf("the layer is %s, %v, want %s", digest(plain), err, config.RootFS.DiffIDs[0])
	}
	content := readTar(t, bytes.NewReader(plain))
	if string(content["duly"]) != "binary" || string(content["etc/ssl/certs/ca-certificates.crt"]) != "roots" {
		t.Errorf("the layer has %q", content)
	}

	docker := decode[[]dockerManifest](t, files["manifest.json"])[0]
	if docker.Config != blobName(m.Config.Digest) || docker.Layers[0] != blobName(m.Layers[0].Digest) {
		t.Errorf("manifest.json names other blobs: %+v", docker)
	}
	if !slices.Equal(docker.RepoTags, []string{"duly:1.2.3"}) {
		t.Errorf("tags %q", docker.RepoTags)
	}
}

// The image that is made without a daemon runs like the image of the Dockerfile.
func TestImageIsThatOfTheDockerfile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(root + "/packaging/docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, stage, _ := strings.Cut(string(text), "\nFROM scratch\n")
	c := containerConfig(stamp)
	words := func(list []string) string { return string(jsonEntry("", list).body) }
	keys := func(set map[string]struct{}) []string {
		var list []string
		for k := range set {
			list = append(list, strings.TrimSuffix(k, "/tcp"))
		}
		slices.Sort(list)
		return list
	}

	for _, want := range []string{
		"ENV " + strings.Join(c.Env, " "),
		"USER " + c.User,
		"VOLUME " + strings.Join(keys(c.Volumes), " "),
		"EXPOSE " + strings.Join(keys(c.ExposedPorts), " "),
		"STOPSIGNAL " + c.StopSignal,
		"ENTRYPOINT " + strings.ReplaceAll(words(c.Entrypoint), ",", ", "),
		"CMD " + strings.ReplaceAll(words(c.Cmd), ",", ", "),
		fmt.Sprintf("HEALTHCHECK --interval=%s --timeout=%s --start-period=%s CMD %s", c.Healthcheck.Interval,
			c.Healthcheck.Timeout, c.Healthcheck.StartPeriod, strings.ReplaceAll(words(c.Healthcheck.Test[1:]), ",", ", ")),
	} {
		if !strings.Contains(stage, "\n"+want+"\n") {
			t.Errorf("the Dockerfile lacks the line %q", want)
		}
	}
	if directives := regexp.MustCompile(`(?m)^[A-Z]+ `).FindAllString(stage, -1); len(directives) != 11 {
		t.Errorf("the Dockerfile has %d directives, want the 8 above and 3 copies: %q", len(directives), directives)
	}
}

// The package's configuration names files that the release stages, at the paths
// that the unit and Debian expect.
func TestPackageInstallsTheStagedFiles(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(root + "/packaging/deb/nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"name: duly", "arch: ${DULY_ARCH}", "version: ${DULY_VERSION}", "version_schema: semver",
		"license: Apache-2.0", "  - src: duly\n    dst: " + packageBinary,
		"dst: /etc/duly/duly.env\n    type: config|noreplace\n    file_info: {mode: 0600}",
		"dst: /usr/lib/systemd/system/duly.service",
	} {
		if !strings.Contains(string(text), want+"\n") {
			t.Errorf("nfpm.yaml lacks %q", want)
		}
	}
	if strings.Contains(string(text), "/usr/local") {
		t.Error("a package must not write below /usr/local")
	}

	dir := t.TempDir()
	b := &builder{Config: Config{Root: root, Version: stamp.Version}, date: date}
	unit, err := os.ReadFile(root + "/packaging/systemd/duly.service")
	if err != nil {
		t.Fatal(err)
	}
	files := []entry{{name: "duly"}, {name: "NOTICES.txt"}, {name: "duly.service", mode: 0o644, body: unit}}
	for _, name := range []string{"README.md", "LICENSE", "CHANGELOG.md"} {
		files = append(files, entry{name: name, mode: 0o644})
	}
	for _, shell := range shells {
		files = append(files, entry{name: "completions/duly." + shell, mode: 0o644})
	}
	if err := b.stage(dir, files); err != nil {
		t.Fatal(err)
	}
	sources := regexp.MustCompile(`(?m)^(?:  - src| +(?:postinstall|preremove|postremove)): (\S+)$`)
	for _, m := range sources.FindAllStringSubmatch(string(text), -1) {
		info, err := os.Stat(filepath.Join(dir, m[1]))
		if err != nil {
			t.Errorf("the package wants a file that is not staged: %v", err)
		} else if !info.ModTime().Equal(date) {
			t.Errorf("%s has the time %s, want that of the commit", m[1], info.ModTime())
		}
	}
	staged, err := os.ReadFile(filepath.Join(dir, "duly.service"))
	if err != nil || !strings.Contains(string(staged), "\nExecStart="+packageBinary+" serve\n") {
		t.Errorf("the unit does not start %s: %v", packageBinary, err)
	}
}

func TestMaintainerScriptsParse(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("missing: sh")
	}
	for _, name := range maintainerScripts {
		out, err := exec.CommandContext(t.Context(), sh, "-n", root+"/packaging/deb/"+name).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}

func TestSumsCoverEveryFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := ""
	for _, name := range []string{"a.deb", "b.tar.gz"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		want += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(name)), name)
	}
	if err := writeSums(dir); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestSerialIsAUUIDOfThePlatform(t *testing.T) {
	t.Parallel()
	b := &builder{stamp: stamp}
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for _, target := range Targets {
		s := b.serial(target)
		if !form.MatchString(s) || seen[s] {
			t.Errorf("%s: serial %s", target, s)
		}
		seen[s] = true
	}
}

// A release is a commit of a clone with a section in the changelog.
func TestReleaseRefuses(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("missing: git")
	}
	clone := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = clone
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_COMMITTER_DATE=2026-11-26T01:35:46Z",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v, %s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(clone, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("CHANGELOG.md", "# Changelog\n\n## [1.2.3] - 2026-11-26\n")
	git("init", "-q")
	git("add", "-A")
	git("commit", "-q", "-m", "first")

	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "old"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ version, out, want string }{
		{"1.2.3", t.TempDir(), "does not have the form"},
		{"v1.2", t.TempDir(), "does not have the form"},
		{"v1.2.3 -X main.commit=0", t.TempDir(), "does not have the form"},
		{"v1.2.4", t.TempDir(), "has no section"},
		{"v1.2.3", full, "is not empty"},
	} {
		_, err := newBuilder(t.Context(), Config{Root: clone, Out: c.out, Version: c.version})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.version, err, c.want)
		}
	}

	b, err := newBuilder(t.Context(), Config{Root: clone, Out: t.TempDir(), Version: "v1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("SOURCE_DATE_EPOCH") == "" && b.stamp.Date != "2026-11-26T01:35:46Z" {
		t.Errorf("the date is %s, want that of the commit", b.stamp.Date)
	}
	write("new", "")
	if _, err := newBuilder(t.Context(), Config{Root: clone, Out: t.TempDir(), Version: "v1.2.3"}); err == nil {
		t.Error("a clone with changes was accepted")
	}
}
