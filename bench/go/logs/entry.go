// Package logs holds the rows of the data set "logs" as Go structs: the form in which a service has them.
package logs

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Entry is one row. Its fields are in the order of the data set's schema; a pointer may be null.
type Entry struct {
	Timestamp     int64    `parquet:"timestamp,timestamp(microsecond)"`
	IngestedAt    int64    `parquet:"ingested_at,timestamp(microsecond)"`
	LogOffset     int64    `parquet:"log_offset"`
	LogPartition  int16    `parquet:"log_partition"`
	TraceId       *string  `parquet:"trace_id"`
	SpanId        *string  `parquet:"span_id"`
	ParentSpanId  *string  `parquet:"parent_span_id"`
	Sampled       bool     `parquet:"sampled"`
	Service       string   `parquet:"service"`
	Namespace     string   `parquet:"namespace"`
	Environment   string   `parquet:"environment"`
	Region        string   `parquet:"region"`
	Zone          string   `parquet:"zone"`
	Cluster       string   `parquet:"cluster"`
	Host          string   `parquet:"host"`
	HostIp        *string  `parquet:"host_ip"`
	Pod           string   `parquet:"pod"`
	ContainerId   *string  `parquet:"container_id"`
	Image         string   `parquet:"image"`
	Pid           int32    `parquet:"pid"`
	Thread        *string  `parquet:"thread"`
	Level         string   `parquet:"level"`
	Severity      int8     `parquet:"severity"`
	Logger        string   `parquet:"logger"`
	SourceLine    int32    `parquet:"source_line"`
	Message       string   `parquet:"message"`
	ErrorKind     *string  `parquet:"error_kind"`
	StackTrace    *string  `parquet:"stack_trace"`
	HttpMethod    *string  `parquet:"http_method"`
	HttpHost      *string  `parquet:"http_host"`
	HttpPath      *string  `parquet:"http_path"`
	HttpQuery     *string  `parquet:"http_query"`
	HttpStatus    *int16   `parquet:"http_status"`
	HttpTls       *bool    `parquet:"http_tls"`
	UserAgent     *string  `parquet:"user_agent"`
	Referrer      *string  `parquet:"referrer"`
	ClientIp      *string  `parquet:"client_ip"`
	ClientPort    *int32   `parquet:"client_port"`
	RequestBytes  int32    `parquet:"request_bytes"`
	ResponseBytes int64    `parquet:"response_bytes"`
	DurationMs    float64  `parquet:"duration_ms"`
	UpstreamNs    *int64   `parquet:"upstream_ns"`
	Retries       int8     `parquet:"retries"`
	CacheHit      *bool    `parquet:"cache_hit"`
	UserId        *string  `parquet:"user_id"`
	SessionId     *string  `parquet:"session_id"`
	TenantId      int32    `parquet:"tenant_id"`
	Country       *string  `parquet:"country"`
	Experiment    *string  `parquet:"experiment"`
	Amount        *float64 `parquet:"amount"`
	CpuRatio      *float64 `parquet:"cpu_ratio"`
	Score         float64  `parquet:"score"`
}

// FromBatches makes structs of record batches. Texts are copied, so that the batches can be released.
func FromBatches(batches []arrow.RecordBatch) ([]Entry, error) {
	var entries []Entry
	for _, batch := range batches {
		if int(batch.NumCols()) != columns {
			return nil, fmt.Errorf("the rows have %d columns, and those of the data set logs %d: this program writes "+
				"that data set alone", batch.NumCols(), columns)
		}
		at := len(entries)
		entries = append(entries, make([]Entry, batch.NumRows())...)
		if err := fill(entries[at:], batch); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

func fill(entries []Entry, batch arrow.RecordBatch) error {
	at := 0
	next := func(name string) (arrow.Array, error) {
		if found := batch.ColumnName(at); found != name {
			return nil, fmt.Errorf("column %d is %q, and %q in the data set logs: this program writes that data set alone", at, found, name)
		}
		at++
		return batch.Column(at - 1), nil
	}
	var column arrow.Array
	var err error
	if column, err = next("timestamp"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Timestamp); ok {
		for row := range entries {
			entries[row].Timestamp = int64(typed.Value(row))
		}
	} else {
		return mistyped("timestamp", column)
	}
	if column, err = next("ingested_at"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Timestamp); ok {
		for row := range entries {
			entries[row].IngestedAt = int64(typed.Value(row))
		}
	} else {
		return mistyped("ingested_at", column)
	}
	if column, err = next("log_offset"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Int64); ok {
		for row := range entries {
			entries[row].LogOffset = typed.Value(row)
		}
	} else {
		return mistyped("log_offset", column)
	}
	if column, err = next("log_partition"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Int16); ok {
		for row := range entries {
			entries[row].LogPartition = typed.Value(row)
		}
	} else {
		return mistyped("log_partition", column)
	}
	if column, err = next("trace_id"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].TraceId = &value
			}
		}
	} else {
		return mistyped("trace_id", column)
	}
	if column, err = next("span_id"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].SpanId = &value
			}
		}
	} else {
		return mistyped("span_id", column)
	}
	if column, err = next("parent_span_id"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].ParentSpanId = &value
			}
		}
	} else {
		return mistyped("parent_span_id", column)
	}
	if column, err = next("sampled"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Boolean); ok {
		for row := range entries {
			entries[row].Sampled = typed.Value(row)
		}
	} else {
		return mistyped("sampled", column)
	}
	if column, err = next("service"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			entries[row].Service = strings.Clone(typed.Value(row))
		}
	} else {
		return mistyped("service", column)
	}
	if column, err = next("namespace"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			entries[row].Namespace = strings.Clone(typed.Value(row))
		}
	} else {
		return mistyped("namespace", column)
	}
	if column, err = next("environment"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			entries[row].Environment = strings.Clone(typed.Value(row))
		}
	} else {
		return mistyped("environment", column)
	}
	if column, err = next("region"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			entries[row].Region = strings.Clone(typed.Value(row))
		}
	} else {
		return mistyped("region", column)
	}
	if column, err = next("zone"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			entries[row].Zone = strings.Clone(typed.Value(row))
		}
	} else {
		return mistyped("zone", column)
	}
	if column, err = next("cluster"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			entries[row].Cluster = strings.Clone(typed.Value(row))
		}
	} else {
		return mistyped("cluster", column)
	}
	if column, err = next("host"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			entries[row].Host = strings.Clone(typed.Value(row))
		}
	} else {
		return mistyped("host", column)
	}
	if column, err = next("host_ip"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].HostIp = &value
			}
		}
	} else {
		return mistyped("host_ip", column)
	}
	if column, err = next("pod"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			entries[row].Pod = strings.Clone(typed.Value(row))
		}
	} else {
		return mistyped("pod", column)
	}
	if column, err = next("container_id"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].ContainerId = &value
			}
		}
	} else {
		return mistyped("container_id", column)
	}
	if column, err = next("image"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			entries[row].Image = strings.Clone(typed.Value(row))
		}
	} else {
		return mistyped("image", column)
	}
	if column, err = next("pid"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Int32); ok {
		for row := range entries {
			entries[row].Pid = typed.Value(row)
		}
	} else {
		return mistyped("pid", column)
	}
	if column, err = next("thread"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].Thread = &value
			}
		}
	} else {
		return mistyped("thread", column)
	}
	if column, err = next("level"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			entries[row].Level = strings.Clone(typed.Value(row))
		}
	} else {
		return mistyped("level", column)
	}
	if column, err = next("severity"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Int8); ok {
		for row := range entries {
			entries[row].Severity = typed.Value(row)
		}
	} else {
		return mistyped("severity", column)
	}
	if column, err = next("logger"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			entries[row].Logger = strings.Clone(typed.Value(row))
		}
	} else {
		return mistyped("logger", column)
	}
	if column, err = next("source_line"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Int32); ok {
		for row := range entries {
			entries[row].SourceLine = typed.Value(row)
		}
	} else {
		return mistyped("source_line", column)
	}
	if column, err = next("message"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			entries[row].Message = strings.Clone(typed.Value(row))
		}
	} else {
		return mistyped("message", column)
	}
	if column, err = next("error_kind"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].ErrorKind = &value
			}
		}
	} else {
		return mistyped("error_kind", column)
	}
	if column, err = next("stack_trace"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].StackTrace = &value
			}
		}
	} else {
		return mistyped("stack_trace", column)
	}
	if column, err = next("http_method"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].HttpMethod = &value
			}
		}
	} else {
		return mistyped("http_method", column)
	}
	if column, err = next("http_host"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].HttpHost = &value
			}
		}
	} else {
		return mistyped("http_host", column)
	}
	if column, err = next("http_path"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].HttpPath = &value
			}
		}
	} else {
		return mistyped("http_path", column)
	}
	if column, err = next("http_query"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].HttpQuery = &value
			}
		}
	} else {
		return mistyped("http_query", column)
	}
	if column, err = next("http_status"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Int16); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := typed.Value(row)
				entries[row].HttpStatus = &value
			}
		}
	} else {
		return mistyped("http_status", column)
	}
	if column, err = next("http_tls"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Boolean); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := typed.Value(row)
				entries[row].HttpTls = &value
			}
		}
	} else {
		return mistyped("http_tls", column)
	}
	if column, err = next("user_agent"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].UserAgent = &value
			}
		}
	} else {
		return mistyped("user_agent", column)
	}
	if column, err = next("referrer"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].Referrer = &value
			}
		}
	} else {
		return mistyped("referrer", column)
	}
	if column, err = next("client_ip"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].ClientIp = &value
			}
		}
	} else {
		return mistyped("client_ip", column)
	}
	if column, err = next("client_port"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Int32); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := typed.Value(row)
				entries[row].ClientPort = &value
			}
		}
	} else {
		return mistyped("client_port", column)
	}
	if column, err = next("request_bytes"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Int32); ok {
		for row := range entries {
			entries[row].RequestBytes = typed.Value(row)
		}
	} else {
		return mistyped("request_bytes", column)
	}
	if column, err = next("response_bytes"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Int64); ok {
		for row := range entries {
			entries[row].ResponseBytes = typed.Value(row)
		}
	} else {
		return mistyped("response_bytes", column)
	}
	if column, err = next("duration_ms"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Float64); ok {
		for row := range entries {
			entries[row].DurationMs = typed.Value(row)
		}
	} else {
		return mistyped("duration_ms", column)
	}
	if column, err = next("upstream_ns"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Int64); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := typed.Value(row)
				entries[row].UpstreamNs = &value
			}
		}
	} else {
		return mistyped("upstream_ns", column)
	}
	if column, err = next("retries"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Int8); ok {
		for row := range entries {
			entries[row].Retries = typed.Value(row)
		}
	} else {
		return mistyped("retries", column)
	}
	if column, err = next("cache_hit"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Boolean); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := typed.Value(row)
				entries[row].CacheHit = &value
			}
		}
	} else {
		return mistyped("cache_hit", column)
	}
	if column, err = next("user_id"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].UserId = &value
			}
		}
	} else {
		return mistyped("user_id", column)
	}
	if column, err = next("session_id"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].SessionId = &value
			}
		}
	} else {
		return mistyped("session_id", column)
	}
	if column, err = next("tenant_id"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Int32); ok {
		for row := range entries {
			entries[row].TenantId = typed.Value(row)
		}
	} else {
		return mistyped("tenant_id", column)
	}
	if column, err = next("country"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].Country = &value
			}
		}
	} else {
		return mistyped("country", column)
	}
	if column, err = next("experiment"); err != nil {
		return err
	}
	if typed, ok := column.(*array.String); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := strings.Clone(typed.Value(row))
				entries[row].Experiment = &value
			}
		}
	} else {
		return mistyped("experiment", column)
	}
	if column, err = next("amount"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Float64); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := typed.Value(row)
				entries[row].Amount = &value
			}
		}
	} else {
		return mistyped("amount", column)
	}
	if column, err = next("cpu_ratio"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Float64); ok {
		for row := range entries {
			if typed.IsValid(row) {
				value := typed.Value(row)
				entries[row].CpuRatio = &value
			}
		}
	} else {
		return mistyped("cpu_ratio", column)
	}
	if column, err = next("score"); err != nil {
		return err
	}
	if typed, ok := column.(*array.Float64); ok {
		for row := range entries {
			entries[row].Score = typed.Value(row)
		}
	} else {
		return mistyped("score", column)
	}
	return nil
}

func mistyped(name string, column arrow.Array) error {
	return fmt.Errorf("column %q is %s, which it is not in the data set logs", name, column.DataType())
}

// Append adds an entry to a builder of record batches with the data set's schema.
func Append(builder *array.RecordBuilder, entry *Entry) {
	builder.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(entry.Timestamp))
	builder.Field(1).(*array.TimestampBuilder).Append(arrow.Timestamp(entry.IngestedAt))
	builder.Field(2).(*array.Int64Builder).Append(entry.LogOffset)
	builder.Field(3).(*array.Int16Builder).Append(entry.LogPartition)
	if entry.TraceId == nil {
		builder.Field(4).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(4).(*array.StringBuilder).Append(*entry.TraceId)
	}
	if entry.SpanId == nil {
		builder.Field(5).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(5).(*array.StringBuilder).Append(*entry.SpanId)
	}
	if entry.ParentSpanId == nil {
		builder.Field(6).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(6).(*array.StringBuilder).Append(*entry.ParentSpanId)
	}
	builder.Field(7).(*array.BooleanBuilder).Append(entry.Sampled)
	builder.Field(8).(*array.StringBuilder).Append(entry.Service)
	builder.Field(9).(*array.StringBuilder).Append(entry.Namespace)
	builder.Field(10).(*array.StringBuilder).Append(entry.Environment)
	builder.Field(11).(*array.StringBuilder).Append(entry.Region)
	builder.Field(12).(*array.StringBuilder).Append(entry.Zone)
	builder.Field(13).(*array.StringBuilder).Append(entry.Cluster)
	builder.Field(14).(*array.StringBuilder).Append(entry.Host)
	if entry.HostIp == nil {
		builder.Field(15).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(15).(*array.StringBuilder).Append(*entry.HostIp)
	}
	builder.Field(16).(*array.StringBuilder).Append(entry.Pod)
	if entry.ContainerId == nil {
		builder.Field(17).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(17).(*array.StringBuilder).Append(*entry.ContainerId)
	}
	builder.Field(18).(*array.StringBuilder).Append(entry.Image)
	builder.Field(19).(*array.Int32Builder).Append(entry.Pid)
	if entry.Thread == nil {
		builder.Field(20).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(20).(*array.StringBuilder).Append(*entry.Thread)
	}
	builder.Field(21).(*array.StringBuilder).Append(entry.Level)
	builder.Field(22).(*array.Int8Builder).Append(entry.Severity)
	builder.Field(23).(*array.StringBuilder).Append(entry.Logger)
	builder.Field(24).(*array.Int32Builder).Append(entry.SourceLine)
	builder.Field(25).(*array.StringBuilder).Append(entry.Message)
	if entry.ErrorKind == nil {
		builder.Field(26).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(26).(*array.StringBuilder).Append(*entry.ErrorKind)
	}
	if entry.StackTrace == nil {
		builder.Field(27).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(27).(*array.StringBuilder).Append(*entry.StackTrace)
	}
	if entry.HttpMethod == nil {
		builder.Field(28).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(28).(*array.StringBuilder).Append(*entry.HttpMethod)
	}
	if entry.HttpHost == nil {
		builder.Field(29).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(29).(*array.StringBuilder).Append(*entry.HttpHost)
	}
	if entry.HttpPath == nil {
		builder.Field(30).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(30).(*array.StringBuilder).Append(*entry.HttpPath)
	}
	if entry.HttpQuery == nil {
		builder.Field(31).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(31).(*array.StringBuilder).Append(*entry.HttpQuery)
	}
	if entry.HttpStatus == nil {
		builder.Field(32).(*array.Int16Builder).AppendNull()
	} else {
		builder.Field(32).(*array.Int16Builder).Append(*entry.HttpStatus)
	}
	if entry.HttpTls == nil {
		builder.Field(33).(*array.BooleanBuilder).AppendNull()
	} else {
		builder.Field(33).(*array.BooleanBuilder).Append(*entry.HttpTls)
	}
	if entry.UserAgent == nil {
		builder.Field(34).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(34).(*array.StringBuilder).Append(*entry.UserAgent)
	}
	if entry.Referrer == nil {
		builder.Field(35).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(35).(*array.StringBuilder).Append(*entry.Referrer)
	}
	if entry.ClientIp == nil {
		builder.Field(36).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(36).(*array.StringBuilder).Append(*entry.ClientIp)
	}
	if entry.ClientPort == nil {
		builder.Field(37).(*array.Int32Builder).AppendNull()
	} else {
		builder.Field(37).(*array.Int32Builder).Append(*entry.ClientPort)
	}
	builder.Field(38).(*array.Int32Builder).Append(entry.RequestBytes)
	builder.Field(39).(*array.Int64Builder).Append(entry.ResponseBytes)
	builder.Field(40).(*array.Float64Builder).Append(entry.DurationMs)
	if entry.UpstreamNs == nil {
		builder.Field(41).(*array.Int64Builder).AppendNull()
	} else {
		builder.Field(41).(*array.Int64Builder).Append(*entry.UpstreamNs)
	}
	builder.Field(42).(*array.Int8Builder).Append(entry.Retries)
	if entry.CacheHit == nil {
		builder.Field(43).(*array.BooleanBuilder).AppendNull()
	} else {
		builder.Field(43).(*array.BooleanBuilder).Append(*entry.CacheHit)
	}
	if entry.UserId == nil {
		builder.Field(44).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(44).(*array.StringBuilder).Append(*entry.UserId)
	}
	if entry.SessionId == nil {
		builder.Field(45).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(45).(*array.StringBuilder).Append(*entry.SessionId)
	}
	builder.Field(46).(*array.Int32Builder).Append(entry.TenantId)
	if entry.Country == nil {
		builder.Field(47).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(47).(*array.StringBuilder).Append(*entry.Country)
	}
	if entry.Experiment == nil {
		builder.Field(48).(*array.StringBuilder).AppendNull()
	} else {
		builder.Field(48).(*array.StringBuilder).Append(*entry.Experiment)
	}
	if entry.Amount == nil {
		builder.Field(49).(*array.Float64Builder).AppendNull()
	} else {
		builder.Field(49).(*array.Float64Builder).Append(*entry.Amount)
	}
	if entry.CpuRatio == nil {
		builder.Field(50).(*array.Float64Builder).AppendNull()
	} else {
		builder.Field(50).(*array.Float64Builder).Append(*entry.CpuRatio)
	}
	builder.Field(51).(*array.Float64Builder).Append(entry.Score)
}

const columns = 52
