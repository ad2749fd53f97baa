// Package protocol is the part of an external backend that has nothing to do with Parquet: what the bench asks for,
// the rows from standard input, and the line of figures.
package protocol

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// Request is what the bench asks for, in variables of the environment.
type Request struct {
	Output       string
	Codec        string
	Level        int
	RowGroupRows int64
}

// ReadRequest reads the variables, and refuses codecs that the study did not measure.
func ReadRequest() (Request, error) {
	request := Request{Output: os.Getenv("SPILLWAY_OUTPUT"), Codec: os.Getenv("SPILLWAY_CODEC")}
	if request.Output == "" {
		return request, fmt.Errorf("SPILLWAY_OUTPUT is not set: the bench starts this program")
	}
	if request.Codec != "zstd" && request.Codec != "snappy" && request.Codec != "uncompressed" {
		return request, fmt.Errorf("codec %q: this program writes zstd, snappy and uncompressed", request.Codec)
	}
	var err error
	if level := os.Getenv("SPILLWAY_LEVEL"); level != "" {
		if request.Level, err = strconv.Atoi(level); err != nil {
			return request, fmt.Errorf("SPILLWAY_LEVEL %q is no number", level)
		}
	}
	rows := os.Getenv("SPILLWAY_ROW_GROUP_ROWS")
	if request.RowGroupRows, err = strconv.ParseInt(rows, 10, 64); err != nil {
		return request, fmt.Errorf("SPILLWAY_ROW_GROUP_ROWS %q is no number", rows)
	}
	return request, nil
}

// ReadBatches reads all record batches of an Arrow IPC stream, and their schema.
func ReadBatches(stream io.Reader) ([]arrow.RecordBatch, *arrow.Schema, error) {
	reader, err := ipc.NewReader(stream)
	if err != nil {
		return nil, nil, err
	}
	defer reader.Release()
	var batches []arrow.RecordBatch
	for reader.Next() {
		batch := reader.RecordBatch()
		batch.Retain()
		batches = append(batches, batch)
	}
	return batches, reader.Schema(), reader.Err()
}

// figures is the line that the bench reads: times in seconds, sizes in bytes.
type figures struct {
	Rows           int64   `json:"rows"`
	Version        string  `json:"version"`
	Seconds        float64 `json:"seconds"`
	UserSeconds    float64 `json:"user_seconds"`
	SystemSeconds  float64 `json:"system_seconds"`
	BaselineBytes  int64   `json:"baseline_bytes"`
	PeakBytes      int64   `json:"peak_bytes"`
	HeapBytes      uint64  `json:"heap_bytes"`
	HeapGrowth     int64   `json:"heap_growth_bytes"`
	AllocatedBytes uint64  `json:"allocated_bytes"`
	Allocations    uint64  `json:"allocations"`
	GCRuns         uint32  `json:"gc_runs"`
	GCPauseSeconds float64 `json:"gc_pause_seconds"`
}

// Run measures a write of rows that are in memory and prints its line. The clock runs from the call of write to its return.
func Run(rows int64, module string, write func() error) error {
	debug.FreeOSMemory()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	baseline, err := resetHighWater()
	if err != nil {
		return err
	}
	user, system := processorSeconds()
	begin := time.Now()
	if err := write(); err != nil {
		return err
	}
	seconds := time.Since(begin).Seconds()
	userAfter, systemAfter := processorSeconds()
	runtime.ReadMemStats(&after)
	peak, err := status("VmHWM")
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(figures{
		Rows:           rows,
		Version:        version(module),
		Seconds:        seconds,
		UserSeconds:    userAfter - user,
		SystemSeconds:  systemAfter - system,
		BaselineBytes:  baseline,
		PeakBytes:      peak,
		HeapBytes:      after.HeapAlloc,
		HeapGrowth:     int64(after.HeapAlloc) - int64(before.HeapAlloc),
		AllocatedBytes: after.TotalAlloc - before.TotalAlloc,
		Allocations:    after.Mallocs - before.Mallocs,
		GCRuns:         after.NumGC - before.NumGC,
		GCPauseSeconds: float64(after.PauseTotalNs-before.PauseTotalNs) / 1e9,
	})
}

// Main runs a program of the protocol; an error goes to standard error, where the bench finds it.
func Main(run func() error) {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, each := range info.Deps {
		if each.Path == module {
			return each.Version
		}
	}
	return "unknown"
}

// resetHighWater sets the high-water mark of resident memory back to what is resident now, and returns that.
func resetHighWater() (int64, error) {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return 0, err
	}
	return status("VmRSS")
}

func status(field string) (int64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(text), "\n") {
		if name, value, found := strings.Cut(line, ":"); found && name == field {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib * 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no %s", field)
}

func processorSeconds() (user, system float64) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, 0
	}
	seconds := func(value syscall.Timeval) float64 { return float64(value.Sec) + float64(value.Usec)/1e6 }
	return seconds(usage.Utime), seconds(usage.Stime)
}
