package dashboard

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/dashboard/render"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/failures"
)

// funcs has the functions of templates.
var funcs = map[string]any{
	"path": path, "moment": moment, "ago": distance, "since": since, "duration": view.Duration, "line": failures.FirstLine,
	"asset": func(hash, name string) render.Path { return path("assets", hash) + render.Path("/"+name) },
	"group": func(at render.Path, fp string) render.Path { return withQuery(at, "fp", fp) },
	"live":  func(texts []string, at int) view.Number { return view.Number{At: at, Text: texts[at]} },
	"when":  func(j duly.JobInfo) time.Time { _, at := when(j.State, &j); return at },
	"finding": func(namespace, code, queue string) render.Path {
		if code == "dead_growing" {
			return queuePath(namespace, queue, duly.StateDead.String())
		}
		return queuePath(namespace, queue)
	},
}

const momentLayout = "2006-01-02 15:04:05.000 UTC"

// moment returns a time in UTC, "" for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(momentLayout)
}

// since returns a time with its distance from now.
func since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return moment(t) + ", " + distance(t, now)
}

// distance returns how far a time is from now, "" for none.
func distance(t, now time.Time) string {
	switch age := now.Sub(t); {
	case t.IsZero():
		return ""
	case age >= 0:
		return view.Duration(age) + " ago"
	default:
		return "in " + view.Duration(-age)
	}
}

// maxShown is how much of a body or a result a page has, in bytes.
const maxShown = 16 << 10

// text returns the beginning of a body, as text or in hex.
func text(body []byte) view.Text {
	if len(body) == 0 {
		return view.Text{Note: "Empty."}
	}
	shown, note := body, strconv.Itoa(len(body))+" bytes"
	if len(body) > maxShown {
		shown, note = body[:maxShown], fmt.Sprintf("%s, the first %d of them", note, maxShown)
	}
	if utf8.Valid(body) {
		return view.Text{Content: strings.ToValidUTF8(string(shown), ""), Note: note + "."}
	}
	return view.Text{Content: hex.Dump(shown), Note: note + ", in hexadecimal."}
}

// rate returns a number per second.
func rate(v float64) string {
	switch {
	case v == 0 || v >= 10:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 1:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// spark draws numbers as blocks of eight heights, "" without a number.
func spark(list []float64) string {
	if len(list) == 0 || slices.Max(list) == 0 {
		return ""
	}
	most := slices.Max(list)
	blocks := []rune("▁▂▃▄▅▆▇█")
	text := make([]rune, len(list))
	for i, v := range list {
		text[i] = blocks[min(7, int(8*v/most))]
	}
	return string(text)
}

// Prefix is the path of all pages.
const Prefix = "/ui"

// path returns the URL of a page. It escapes each part.
func path(parts ...string) render.Path {
	var b strings.Builder
	b.WriteString(Prefix)
	for _, p := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(p))
	}
	return render.Path(b.String())
}

// withQuery returns a URL with parameters, which are pairs. It leaves out empty ones.
func withQuery(p render.Path, pairs ...string) render.Path {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	switch {
	case len(query) == 0:
		return p
	case strings.Contains(string(p), "?"):
		return p + render.Path("&"+query.Encode())
	}
	return p + render.Path("?"+query.Encode())
}

// queuePath returns the URL of a queue, or of a page below it.
func queuePath(namespace, queue string, page ...string) render.Path {
	return path(append([]string{"n", namespace, "q", queue}, page...)...)
}
