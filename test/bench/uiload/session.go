package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"
)

// session is a login at the dashboard.
type session struct {
	client *http.Client
	base   string // the admin address, such as http://127.0.0.1:7778
}

// login opens a session with a token.
func login(ctx context.Context, base, token string) (*session, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	// The client must not decompress, because sizes are those of the wire.
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	s := &session{client: &http.Client{Jar: jar, Transport: transport}, base: strings.TrimSuffix(base, "/")}

	form := url.Values{"token": {token}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/ui/login", strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", s.base)
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the login was answered by %s", resp.Status)
	}
	return s, nil
}

// visit is one request of a page.
type visit struct {
	firstByte, whole time.Duration
	size             int // bytes on the wire
	text             string
}

// get requests a page. The path begins with /ui.
func (s *session) get(ctx context.Context, path string) (v visit, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return v, err
	}
	req.Header.Set("Accept-Encoding", "gzip")

	start := time.Now()
	resp, err := s.client.Do(req)
	if err != nil {
		return v, err
	}
	defer resp.Body.Close()
	v.firstByte = time.Since(start)
	body, err := io.ReadAll(resp.Body)
	v.whole, v.size = time.Since(start), len(body)
	if err != nil {
		return v, err
	}
	if resp.StatusCode != http.StatusOK {
		return v, fmt.Errorf("%s was answered by %s", path, resp.Status)
	}

	v.text, err = plain(resp, body)
	return v, err
}

// plain decompresses a body.
func plain(resp *http.Response, body []byte) (string, error) {
	if resp.Header.Get("Content-Encoding") != "gzip" {
		return string(body), nil
	}
	r, err := gzip.NewReader(strings.NewReader(string(body)))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), err
}

var streamOf = regexp.MustCompile(`data-stream="([^"]*)"`)

// view opens a page and its stream until ctx ends, and counts the events.
func (s *session) view(ctx context.Context, path string, events *atomic.Int64) error {
	v, err := s.get(ctx, path)
	if err != nil {
		return err
	}
	m := streamOf.FindStringSubmatch(v.text)
	if m == nil {
		return fmt.Errorf("%s has no stream", path)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+html.UnescapeString(m[1]), nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the stream of %s was answered by %s", path, resp.Status)
	}

	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data:") {
			events.Add(1)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return cmp.Or(lines.Err(), errors.New("the server has ended the stream"))
}
