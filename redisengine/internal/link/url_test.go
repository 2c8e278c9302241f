package link

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	tests := []struct {
		url  string
		want Options // differences from the default Options
		text string  // the result of String; "" if it is the URL itself
	}{
		{"redis://localhost", Options{Addrs: []string{"localhost:6379"}}, "redis://localhost:6379"},
		{"redis://localhost/", Options{Addrs: []string{"localhost:6379"}}, "redis://localhost:6379"},
		{"redis://[::1]:7/3", Options{Addrs: []string{"[::1]:7"}, DB: 3}, ""},
		{"redis://h:1?db=4", Options{Addrs: []string{"h:1"}, DB: 4}, "redis://h:1/4"},
		{"redis://h:1/4?db=4", Options{Addrs: []string{"h:1"}, DB: 4}, "redis://h:1/4"},
		{"redis://:p%2F%40%25@h:1", Options{Addrs: []string{"h:1"}, Password: "p/@%"}, "redis://***@h:1"},
		{"redis://u:p@w:x@h:1", Options{Addrs: []string{"h:1"}, User: "u", Password: "p@w:x"}, "redis://***@h:1"},
		{"rediss://u:p@h:1", Options{Addrs: []string{"h:1"}, User: "u", Password: "p", TLS: &TLS{}}, "rediss://***@h:1"},
		{"rediss://h:1?tls_ca=/c&tls_cert=/a&tls_key=/k&tls_server_name=n&tls_skip_verify=true",
			Options{Addrs: []string{"h:1"}, TLS: &TLS{CA: "/c", Cert: "/a", Key: "/k", ServerName: "n", SkipVerify: true}},
			"rediss://h:1"},
		{"redis+unix:///run/r%3F.sock?db=2", Options{Addrs: []string{"/run/r?.sock"}, Unix: true, DB: 2},
			"redis+unix:///run/r?.sock?db=2"},
		{"redis+unix://:pw@/run/r.sock", Options{Addrs: []string{"/run/r.sock"}, Unix: true, Password: "pw"},
			"redis+unix://***@/run/r.sock"},
		{"redis+sentinel://a,b:1,[::1]/my%20master/2?sentinel_user=x&sentinel_password=y",
			Options{Mode: Sentinel, Addrs: []string{"a:26379", "b:1", "[::1]:26379"}, DB: 2,
				Sentinel: SentinelOptions{Master: "my master", User: "x", Password: "y"}},
			"redis+sentinel://a:26379,b:1,[::1]:26379/my%20master/2"},
		{"rediss+sentinel://a:1?master=m&addr=b:2", Options{Mode: Sentinel, TLS: &TLS{}, Addrs: []string{"a:1", "b:2"},
			Sentinel: SentinelOptions{Master: "m"}},
			"rediss+sentinel://a:1,b:2/m"},
		{"redis+cluster://a:1,b:2", Options{Mode: Cluster, Addrs: []string{"a:1", "b:2"}}, ""},
		{"redis+cluster://:s@a:1/0?addr=b:2&addr=c:3", Options{Mode: Cluster, Addrs: []string{"a:1", "b:2", "c:3"},
			Password: "s"}, "redis+cluster://***@a:1,b:2,c:3"},
		{"rediss+cluster://a:1", Options{Mode: Cluster, TLS: &TLS{}, Addrs: []string{"a:1"}}, ""},
		{"redis://h:1?prefix=a.b:c&durability=aof&durability_timeout=2s&eviction=warn&dial_timeout=1s&retry=300ms&max_body=7",
			Options{Addrs: []string{"h:1"}, Prefix: "a.b:c", Durability: Durability{AOF: true, Timeout: 2 * time.Second},
				EvictionWarn: true,
				Dial:         time.Second, Retry: 300 * time.Millisecond, Others: map[string]string{"max_body": "7"}},
			"redis://h:1?durability=aof&eviction=warn&max_body=7&prefix=a.b%3Ac"},
		{"redis://h:1?durability=replicas:2&eviction=refuse", Options{Addrs: []string{"h:1"},
			Durability: Durability{Replicas: 2}}, "redis://h:1?durability=replicas%3A2"},
		{"redis://h:1?scripts=eval", Options{Addrs: []string{"h:1"}, Scripts: Eval}, ""},
		{"redis://h:1?scripts=auto", Options{Addrs: []string{"h:1"}}, "redis://h:1"},
		{"redis://h:1?durability=none", Options{Addrs: []string{"h:1"}}, "redis://h:1"},
	}
	for _, tt := range tests {
		got, err := ParseURL(tt.url, "max_body")
		if err != nil {
			t.Errorf("ParseURL(%q): %v", tt.url, err)
			continue
		}
		if want := tt.want.withDefaults(); !reflect.DeepEqual(got, want) {
			t.Errorf("ParseURL(%q)\n = %+v\nwant %+v", tt.url, got, want)
		}
		if tt.text == "" {
			tt.text = tt.url
		}
		if got.String() != tt.text {
			t.Errorf("ParseURL(%q).String() = %q, want %q", tt.url, got, tt.text)
		}
	}
}

func TestParseURLNamesTheMistake(t *testing.T) {
	t.Parallel()
	tests := []struct{ url, names string }{
		{"", "redis://"},
		{"redis:", "redis://"},
		{"http://h", "redis+cluster://"},
		{"redis://", "host"},
		{"redis:///1", "host"},
		{"redis://h:x", "host"},
		{"redis://h:0", "65535"},
		{"redis://h:65536", "65535"},
		{"redis://h/x", "db"},
		{"redis://h/-1", "db"},
		{"redis://h/1/2", "db"},
		{"redis://a,b", "redis+cluster"},
		{"redis://a?addr=b", "redis+cluster"},
		{"redis://h?colour=blue", `unknown option "colour"; known options are addr, db, prefix`},
		{"redis://h?max_body=1", "unknown option"},
		{"redis://h?db=1&db=2", "2 times"},
		{"redis://h/5?db=6", "db is 6, but the path says /5; give one of them"},
		{"redis://h/0?db=6", "db is 6, but the path says /0; give one of them"},
		{"redis+sentinel://h/m/5?db=6", "db is 6, but the path says /5; give one of them"},
		{"redis://h?prefix=a{b", "prefix"},
		{"redis://h?prefix=", "prefix"},
		{"redis://h?durability=disk", "aof or replicas:N"},
		{"redis://h?durability=replicas:0", "replicas:N"},
		{"redis://h?scripts=lua", "auto, functions or eval"},
		{"redis://h?eviction=yes", "refuse or warn"},
		{"redis://h?retry=5", "retry"},
		{"redis://h?retry=2h", "retry"},
		{"redis://h?tls_ca=x", "rediss://"},
		{"redis://h?master=x", "redis+sentinel://"},
		{"rediss://h?tls_cert=x", "tls_key"},
		{"rediss://h?tls_skip_verify=maybe", "true or false"},
		{"redis+sentinel://h", "master"},
		{"redis+sentinel://h/a?master=b", "master"},
		{"redis+cluster://h/1", "database 0"},
		{"redis+unix://", "socket"},
		{"redis+unix://h/x", "socket"},
		{"redis+unix:///x?addr=h", "addr"},
		{"redis://h?%zz", "options"},
		{"redis://:%zz@h", "%25"},
		{"redis://h#x", "%23"},
	}
	for _, tt := range tests {
		o, err := ParseURL(tt.url)
		if !errors.Is(err, duly.ErrInvalid) || !reflect.DeepEqual(o, Options{}) {
			t.Errorf("ParseURL(%q) = %+v, %v; want invalid", tt.url, o, err)
		} else if !strings.Contains(err.Error(), tt.names) || strings.Contains(err.Error(), "\n") {
			t.Errorf("ParseURL(%q): %v; want one line that names %q", tt.url, err, tt.names)
		}
	}
}

// TestURLHidesPasswords checks that no text shows a password, however the URL was mistyped (C11.5).
func TestURLHidesPasswords(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://:s3cret@h", "redis://u:s3cret@h:x", "redis://u:s3cret@h?a=b", "redis://u:s3cret/x@h",
		"redis://u:s3?s3cret=x@h", "redis://u:s3#s3cret@h",
		"redis://:s3cret%@h", "redis://:s3cret@h/x", "redis://:s3cret@", "s3cret@h", "redis:s3cret@h",
		"redis+unix://:s3cret@h/x",
		"redis+sentinel://:s3cret@h/m?sentinel_password=s3cret&x=y", "redis://h?sentinel_password=s3cret",
		"redis+sentinel://:s3cret@h/m?sentinel_password=s3cret", "redis+cluster://u:s3cret@h",
	} {
		o, err := ParseURL(url)
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("ParseURL(%q): %v", url, err)
		}
		if err == nil && strings.Contains(o.String(), "s3cret") {
			t.Errorf("String shows the password: %s", o)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, url := range []string{"redis://u:p@h:1/2?prefix=x", "redis+sentinel://a,b/m/1?master=m",
		"rediss+cluster://a?addr=[::1]:2&tls_ca=x", "redis+unix:///a%20b?db=1"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		o, err := ParseURL(url)
		if err != nil {
			if !errors.Is(err, duly.ErrInvalid) {
				t.Errorf("%v", err)
			}
			return
		}
		if o.Unix || o.Sentinel.User != "" || o.Sentinel.Password != "" {
			return
		}
		again, err := ParseURL(o.String())
		if err != nil {
			t.Fatalf("ParseURL of String %q: %v", o, err)
		}
		if again.String() != o.String() && o.User == "" && o.Password == "" {
			t.Errorf("%q is parsed as %q", o, again)
		}
	})
}
