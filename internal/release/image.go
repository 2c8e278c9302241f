package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// The image equals that of packaging/docker/Dockerfile, but is made without a daemon. It is an
// archive with the OCI image layout: https://github.com/opencontainers/image-spec.
// It also has the file manifest.json, which older versions of `docker load` read.

// nobody is the user of the image.
const nobody = 65532

// imageConfig is the configuration of the image. The field Healthcheck is Docker's.
type imageConfig struct {
	Created      string       `json:"created"`
	Architecture string       `json:"architecture"`
	OS           string       `json:"os"`
	Config       runConfig    `json:"config"`
	RootFS       rootFS       `json:"rootfs"`
	History      []historyRow `json:"history"`
}

type runConfig struct {
	User         string              `json:"User"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts"`
	Env          []string            `json:"Env"`
	Entrypoint   []string            `json:"Entrypoint"`
	Cmd          []string            `json:"Cmd"`
	Volumes      map[string]struct{} `json:"Volumes"`
	Labels       map[string]string   `json:"Labels"`
	StopSignal   string              `json:"StopSignal"`
	Healthcheck  healthcheck         `json:"Healthcheck"`
}

type healthcheck struct {
	Test        []string
	Interval    time.Duration
	Timeout     time.Duration
	StartPeriod time.Duration
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type historyRow struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

// descriptor points from one part of the image to another.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

// dockerManifest is the content of manifest.json.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// image writes the container image of a platform.
func (b *builder) image(t Target, binary []byte) error {
	f, err := os.Create(b.path("%s.image.tar", t))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := writeImage(f, t, b.stamp, b.date, binary, b.roots); err != nil {
		return err
	}
	// Close may report a failed write, which the deferred call hides.
	return f.Close()
}

// writeImage writes an image with one layer: the binary, the root certificates and
// an empty folder for data.
func writeImage(w io.Writer, t Target, s Stamp, date time.Time, binary, roots []byte) error {
	plain, packed, err := layer(date, binary, roots)
	if err != nil {
		return err
	}
	// The configuration names a layer by its plain bytes, and the manifest by the compressed ones.
	config := imageConfig{
		Created: s.Date, Architecture: t.Arch, OS: t.OS, Config: containerConfig(s),
		RootFS:  rootFS{Type: "layers", DiffIDs: []string{digest(plain)}},
		History: []historyRow{{Created: s.Date, CreatedBy: "make release VERSION=" + s.Version}},
	}
	var blobs blobSet
	m := manifest{SchemaVersion: 2, MediaType: "application/vnd.oci.image.manifest.v1+json"}
	m.Config = blobs.addJSON("application/vnd.oci.image.config.v1+json", config)
	m.Layers = []descriptor{blobs.add("application/vnd.oci.image.layer.v1.tar+gzip", packed)}

	top := blobs.addJSON(m.MediaType, m)
	top.Platform = &platform{Architecture: t.Arch, OS: t.OS}
	tag := s.Version[1:]
	top.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag}
	files := append(blobs.entries(),
		jsonEntry("index.json", index{
			SchemaVersion: 2, MediaType: "application/vnd.oci.image.index.v1+json", Manifests: []descriptor{top},
		}),
		jsonEntry("manifest.json", []dockerManifest{{
			Config: blobName(m.Config.Digest), RepoTags: []string{"duly:" + tag},
			Layers: []string{blobName(m.Layers[0].Digest)},
		}}),
		entry{name: "oci-layout", mode: 0o644, body: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
	)
	return writeTar(w, files, date)
}

// containerConfig returns the settings that the Dockerfile's last stage has. A test compares the
// two.
func containerConfig(s Stamp) runConfig {
	return runConfig{
		User:         fmt.Sprintf("%d:%d", nobody, nobody),
		ExposedPorts: map[string]struct{}{"7777/tcp": {}, "7778/tcp": {}},
		Env:          []string{"DULY_DATA=/data", "DULY_ADDR=0.0.0.0:7777"},
		Entrypoint:   []string{"/duly"},
		Cmd:          []string{"serve"},
		Volumes:      map[string]struct{}{"/data": {}},
		StopSignal:   "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "duly",
			"org.opencontainers.image.source":   "https://github.com/dulymq/duly",
			"org.opencontainers.image.version":  s.Version[1:],
			"org.opencontainers.image.revision": s.Commit,
			"org.opencontainers.image.created":  s.Date,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
		Healthcheck: healthcheck{
			Test: []string{"CMD", "/duly", "health"}, Interval: 10 * time.Second,
			Timeout: 3 * time.Second, StartPeriod: 10 * time.Second,
		},
	}
}

// layer returns the root file system, plain and compressed.
func layer(date time.Time, binary, roots []byte) (plain, packed []byte, err error) {
	files := []entry{
		// A new volume gets the owner of this folder, so the server can write to it.
		{name: "data/", mode: 0o700, user: nobody},
		{name: "duly", mode: 0o755, body: binary},
		{name: "etc/", mode: 0o755},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, body: roots},
	}
	var tarred bytes.Buffer
	if err := writeTar(&tarred, files, date); err != nil {
		return nil, nil, err
	}
	packed, err = compress(tarred.Bytes())
	return tarred.Bytes(), packed, err
}

// blobSet has the parts of an image in the order in which they were added.
type blobSet struct{ files []entry }

func (b *blobSet) add(mediaType string, body []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: digest(body), Size: len(body)}
	b.files = append(b.files, entry{name: blobName(d.Digest), mode: 0o644, body: body})
	return d
}

func (b *blobSet) addJSON(mediaType string, value any) descriptor {
	return b.add(mediaType, jsonEntry("", value).body)
}

func (b *blobSet) entries() []entry {
	return append([]entry{{name: "blobs/", mode: 0o755}, {name: "blobs/sha256/", mode: 0o755}}, b.files...)
}

func digest(body []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(body)) }

func blobName(digest string) string { return "blobs/sha256/" + digest[len("sha256:"):] }

// jsonEntry returns a file with a value as JSON.
func jsonEntry(name string, value any) entry {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // impossible, because the types above can always be marshaled
	}
	return entry{name: name, mode: 0o644, body: body}
}
