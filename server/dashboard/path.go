package dashboard

import (
	"net/url"
	"strings"

	"github.com/dulymq/duly"
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

// withQuery returns a URL with parameters, which are pairs. It leaves out empty ones.
func withQuery(p render.Path, pairs ...string) render.Path {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	if len(query) == 0 {
		return p
	}
	return p + render.Path("?"+query.Encode())
}

func overviewPath(namespace string) render.Path { return path("n", namespace) }

func queuesPath(namespace string) render.Path { return path("n", namespace, "queues") }

func queuePath(namespace, queue string) render.Path { return path("n", namespace, "q", queue) }

func statePath(namespace, queue, state string) render.Path {
	return path("n", namespace, "q", queue, state)
}

func findPath(q duly.QueueRef) render.Path { return path("n", q.Namespace, "q", q.Name, "find") }

func jobPath(namespace, queue, id string) render.Path {
	return path("n", namespace, "q", queue, "j", id)
}
