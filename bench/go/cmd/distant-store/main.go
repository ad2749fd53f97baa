// Command distant-store hands requests on to an S3 server of this machine. It says on its first line where it listens.
// From a request for /-/begin to one for /-/end, each request takes as long as one to S3 Standard, and is counted. The
// answer of the latter are the numbers of requests by kind.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"
)

// Medians of S3 Standard, and the time that 99 of 100 requests stay below: docs/design/scale.md, "Sources".
var medians = map[string]float64{"GET": 30, "HEAD": 30, "DELETE": 60, "PUT": 60, "POST": 60, "If-None-Match": 63, "LIST": 50}

const (
	slowest = 200.0
	// Standard deviations from the median to the 99th percentile of a normal distribution.
	deviations = 2.326
)

// What was asked for since the beginning; nil when nothing is counted.
type counts struct {
	lock  sync.Mutex
	kinds map[string]int
}

// Counts a request, and tells if it is to be delayed.
func (counts *counts) add(kind string) bool {
	counts.lock.Lock()
	defer counts.lock.Unlock()
	if counts.kinds == nil {
		return false
	}
	counts.kinds[kind]++
	return true
}

func (counts *counts) replace(kinds map[string]int) map[string]int {
	counts.lock.Lock()
	defer counts.lock.Unlock()
	counted := counts.kinds
	counts.kinds = kinds
	return counted
}

func kindOf(request *http.Request) string {
	query := request.URL.Query()
	switch {
	case request.Method == http.MethodGet && query.Has("list-type"):
		return "LIST"
	case request.Method == http.MethodPut && request.Header.Get("If-None-Match") != "":
		return "If-None-Match"
	}
	return request.Method
}

// Half of the time that a request takes: on its way to the store, and back.
func halfOf(kind string) time.Duration {
	median, known := medians[kind]
	if !known {
		median = medians["GET"]
	}
	spread := math.Log(slowest/median) / deviations
	milliseconds := median * math.Exp(spread*rand.NormFloat64())
	return time.Duration(milliseconds / 2 * float64(time.Millisecond))
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen at")
	to := flag.String("to", "", "URL of the S3 server, such as http://127.0.0.1:9000")
	flag.Parse()
	target, err := url.Parse(*to)
	if err != nil || target.Host == "" {
		fmt.Fprintln(os.Stderr, "distant-store: --to takes the URL of an S3 server, such as http://127.0.0.1:9000")
		os.Exit(2)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy, transport.MaxIdleConns, transport.MaxIdleConnsPerHost = nil, 0, 1024
	// The signature of a request covers the host that the client knows, which stays.
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(request *httputil.ProxyRequest) {
		request.Out.URL.Scheme, request.Out.URL.Host = target.Scheme, target.Host
		request.Out.Host = request.In.Host
	}}
	asked := &counts{}
	// No ServeMux: it would redirect keys that it takes for untidy paths.
	handler := func(answer http.ResponseWriter, request *http.Request) {
		switch request.URL.Path {
		case "/-/begin":
			asked.replace(map[string]int{})
		case "/-/end":
			if err := json.NewEncoder(answer).Encode(asked.replace(nil)); err != nil {
				log.Print(err)
			}
		default:
			kind := kindOf(request)
			if !asked.add(kind) {
				proxy.ServeHTTP(answer, request)
				return
			}
			half := halfOf(kind)
			time.Sleep(half)
			proxy.ServeHTTP(&late{ResponseWriter: answer, by: half}, request)
		}
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	log.Fatal(http.Serve(listener, http.HandlerFunc(handler)))
}

// A response whose head waits.
type late struct {
	http.ResponseWriter
	by time.Duration
}

func (late *late) WriteHeader(status int) {
	time.Sleep(late.by)
	late.by = 0
	late.ResponseWriter.WriteHeader(status)
}

func (late *late) Unwrap() http.ResponseWriter { return late.ResponseWriter }
