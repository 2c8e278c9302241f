package dashboard

import (
	"net/url"
	"strings"

	"github.com/dulymq/duly/server/dashboard/render"
)

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

// withCursor returns the URL of another page of a list.
func withCursor(p render.Path, cursor string) render.Path {
	return p + render.Path("?cursor="+url.QueryEscape(cursor))
}

func queuesPath(namespace string) render.Path { return path("n", namespace, "queues") }

func queuePath(namespace, queue string) render.Path { return path("n", namespace, "q", queue) }

func statePath(namespace, queue, state string) render.Path {
	return path("n", namespace, "q", queue, state)
}

func jobPath(namespace, queue, id string) render.Path {
	return path("n", namespace, "q", queue, "j", id)
}
