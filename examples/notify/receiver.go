package main

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// demoReceiver listens on this machine and takes the third request.
func demoReceiver() (url string, end func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	var requests atomic.Int64
	s := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1) < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}),
	}
	go s.Serve(l)
	return "http://" + l.Addr().String(), func() { s.Close() }, nil
}
