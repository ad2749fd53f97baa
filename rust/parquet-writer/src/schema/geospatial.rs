//! Geometries: binary columns of the extension type `geoarrow.wkb`, whose metadata says where their coordinates lie.

use arrow_schema::Field;
use parquet::basic::{EdgeInterpolationAlgorithm, LogicalType};
use serde_json::{Map, Value};

use crate::error::{Result, WriteError};

/// The name of the extension type.
pub(super) const NAME: &str = "geoarrow.wkb";

/// The CRS of coordinates of which nothing is known. Without a CRS, Parquet's would be longitudes and latitudes. Spark
/// knows it in capitals only.
const UNKNOWN: &str = "SRID:0";

/// The logical type: `GEOMETRY` where edges are straight lines, else `GEOGRAPHY`.
///
/// # Errors
/// [`WriteError::Schema`] when the metadata is not that of `GeoArrow`.
pub(super) fn logical_type(field: &Field, path: &str) -> Result<LogicalType> {
    let metadata = match field.extension_type_metadata().map(str::trim) {
        None | Some("") => Map::new(),
        Some(text) => serde_json::from_str(text).map_err(|error| fault(path, &error.to_string()))?,
    };
    let crs = crs(&metadata).map_err(|what| fault(path, what))?;
    let algorithm = match metadata.get("edges") {
        None | Some(Value::Null) => None,
        Some(Value::String(edges)) if edges == "planar" => None,
        Some(edges) => Some(algorithm(edges).ok_or_else(|| fault(path, &format!("no edges are {edges}")))?),
    };
    Ok(match algorithm {
        None => LogicalType::geometry(crs),
        // What the format has where nothing is said.
        Some(EdgeInterpolationAlgorithm::SPHERICAL) => LogicalType::geography(crs, None),
        other => LogicalType::geography(crs, other),
    })
}

fn algorithm(edges: &Value) -> Option<EdgeInterpolationAlgorithm> {
    use EdgeInterpolationAlgorithm::{ANDOYER, KARNEY, SPHERICAL, THOMAS, VINCENTY};
    match edges.as_str()? {
        "spherical" => Some(SPHERICAL),
        "vincenty" => Some(VINCENTY),
        "thomas" => Some(THOMAS),
        "andoyer" => Some(ANDOYER),
        "karney" => Some(KARNEY),
        _ => None,
    }
}

/// The CRS as Parquet has it: none for longitudes and latitudes, and else a name of it, or PROJJSON without one.
/// Coordinates are in the order of x and y in both formats, whatever the CRS says.
///
/// # Errors
/// The fault of a CRS that is neither.
fn crs(metadata: &Map<String, Value>) -> std::result::Result<Option<String>, &'static str> {
    let name = match metadata.get("crs") {
        None | Some(Value::Null) => UNKNOWN.to_owned(),
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        // Spark refuses files whose CRS it does not know by its name.
        Some(Value::Object(projjson)) => {
            identifier(projjson).unwrap_or_else(|| Value::Object(projjson.clone()).to_string())
        }
        Some(_) => return Err("its \"crs\" is neither text nor an object"),
    };
    let is_srid = metadata.get("crs_type").and_then(Value::as_str) == Some("srid");
    Ok(match name.as_str() {
        "OGC:CRS84" | "EPSG:4326" => None,
        "0" if is_srid => Some(UNKNOWN.to_owned()),
        other if is_srid && !other.contains(':') => Some(format!("srid:{other}")),
        _ => Some(name),
    })
}

/// The name that an authority has for a CRS: `EPSG:3857`.
fn identifier(projjson: &Map<String, Value>) -> Option<String> {
    let id = projjson.get("id")?;
    let authority = id.get("authority")?.as_str()?;
    match id.get("code")? {
        Value::String(code) => Some(format!("{authority}:{code}")),
        Value::Number(code) => Some(format!("{authority}:{code}")),
        _ => None,
    }
}

/// The refusal of a column of another type than geometries have.
pub(super) fn not_binary(field: &Field, path: &str) -> WriteError {
    let kind = field.data_type();
    WriteError::column(
        path,
        format!(
            "column {path:?} is {NAME}, and its type is {kind}: make it binary, or leave the name of the extension type out"
        ),
    )
}

fn fault(path: &str, what: &str) -> WriteError {
    WriteError::column(
        path,
        format!(
            "column {path:?} is {NAME}, and its metadata is not what GeoArrow defines: {what}. Give it a JSON object with \
             \"crs\" and \"edges\", or leave the name of the extension type out"
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow_schema::DataType;

    use super::*;

    fn of(metadata: Option<&str>) -> Result<LogicalType> {
        let name = ("ARROW:extension:name".to_owned(), NAME.to_owned());
        let metadata = metadata.map(|text| ("ARROW:extension:metadata".to_owned(), text.to_owned()));
        let all: HashMap<_, _> = std::iter::once(name).chain(metadata).collect();
        logical_type(&Field::new("g", DataType::Binary, true).with_metadata(all), "g")
    }

    #[test]
    fn a_crs_is_named_unless_it_is_that_of_the_format() {
        let cases = [
            (None, Some("SRID:0")),
            (Some(""), Some("SRID:0")),
            (Some("{}"), Some("SRID:0")),
            (Some(r#"{"crs": null}"#), Some("SRID:0")),
            (Some(r#"{"crs": "OGC:CRS84"}"#), None),
            (
                Some(r#"{"crs": "EPSG:4326", "crs_type": "authority_code"}"#),
                None,
            ),
            (
                Some(r#"{"crs": {"id": {"authority": "EPSG", "code": 4326}}}"#),
                None,
            ),
            (
                Some(r#"{"crs": {"id": {"authority": "OGC", "code": "CRS84"}}}"#),
                None,
            ),
            (Some(r#"{"crs": "EPSG:3857"}"#), Some("EPSG:3857")),
            (Some(r#"{"crs": "3857", "crs_type": "srid"}"#), Some("srid:3857")),
            (Some(r#"{"crs": "0", "crs_type": "srid"}"#), Some("SRID:0")),
            (
                Some(r#"{"crs": {"name": "x", "id": {"authority": "EPSG", "code": 3857}}}"#),
                Some("EPSG:3857"),
            ),
            (Some(r#"{"crs": {"name": "x"}}"#), Some(r#"{"name":"x"}"#)),
        ];
        for (metadata, crs) in cases {
            let expected = LogicalType::geometry(crs.map(str::to_owned));
            assert_eq!(of(metadata).unwrap(), expected, "{metadata:?}");
        }
    }

    #[test]
    fn edges_that_are_no_straight_lines_make_geographies() {
        let crs = || Some(UNKNOWN.to_owned());
        assert_eq!(
            of(Some(r#"{"edges": "planar"}"#)).unwrap(),
            LogicalType::geometry(crs())
        );
        let spherical = of(Some(r#"{"edges": "spherical"}"#)).unwrap();
        assert_eq!(spherical, LogicalType::geography(crs(), None));
        let karney = of(Some(r#"{"edges": "karney"}"#)).unwrap();
        let algorithm = Some(EdgeInterpolationAlgorithm::KARNEY);
        assert_eq!(karney, LogicalType::geography(crs(), algorithm));
    }

    #[test]
    fn other_metadata_is_refused() {
        for metadata in [
            "[]",
            "crs",
            r#"{"edges": "round"}"#,
            r#"{"edges": 3}"#,
            r#"{"crs": ""}"#,
            r#"{"crs": 4326}"#,
        ] {
            let error = of(Some(metadata)).unwrap_err().to_string();
            assert!(error.contains("is not what GeoArrow defines"), "{error}");
        }
    }
}
