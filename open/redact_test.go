package open_test

import (
	"testing"

	"github.com/dulymq/duly/open"
)

// C11.5: a printed URL has no token.
func TestRedactHidesEverySecret(t *testing.T) {
	t.Parallel()
	tests := []struct{ url, want string }{
		{"http://s3cret@host:7777/shop", "http://***@host:7777/shop"},
		{"https://user:s3cret@host/", "https://***@host/"},
		{"http://s3@cret@host/shop", "http://***@host/shop"},
		{"http://s3/cret@host/shop", "http://***@host/shop"},
		{"http:s3cret@host", "http:***@host"},
		{"https://host/shop?token=s3cret&a=b", "https://host/shop?token=***&a=b"},
		{"https://host/shop?a=b&PassWord=s3cret", "https://host/shop?a=b&PassWord=***"},
		{"https://host/shop?to%6ben=s3cret", "https://host/shop?to%6ben=***"},
		{"http://127.0.0.1:7777", "http://127.0.0.1:7777"},
		{"sqlite:./duly-data/duly.db?synchronous=normal", "sqlite:./duly-data/duly.db?synchronous=normal"},
		{"sqlite:/home/me@work/duly.db", "sqlite:/home/me@work/duly.db"},
		{"redis://user:s3cret@host:6379/0?prefix=jobs", "redis://***@host:6379/0?prefix=jobs"},
		{"rediss://:s3cret@host", "rediss://***@host"},
		{"redis://user:s3/cr?et@host", "redis://***"},
		{"redis://user:s3#cret@host", "redis://***@host"},
		{"redis+unix://:s3cret@/run/redis.sock?db=1", "redis+unix://***@/run/redis.sock?db=1"},
		{
			"redis+sentinel://u:s3cret@a:1,b:2/main?addr=c:3&sentinel_password=s3cret",
			"redis+sentinel://***@a:1,b:2/main?addr=c:3&sentinel_password=***",
		},
		{"redis+sentinel://a/main?sentinel_password=s3@cret", "redis+sentinel://***"},
		{"rediss+cluster://a:1,b:2?tls_key=/etc/k.pem&addr=c:3", "rediss+cluster://a:1,b:2?tls_key=***&addr=c:3"},
		{"redis+cluster://a:1", "redis+cluster://a:1"},
		{"no URL at all", "no URL at all"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := open.Redact(tt.url); got != tt.want {
			t.Errorf("Redact(%q) = %q, want %q", tt.url, got, tt.want)
		}
	}
}
