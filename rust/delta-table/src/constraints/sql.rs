//! The part of SQL that CHECK expressions may use here.
//!
//! It has comparisons of columns and literals, `AND`, `OR`, `NOT`, `IS [NOT] NULL`, `[NOT] IN`, `[NOT] BETWEEN` and
//! parentheses. Texts that engines read differently are refused: a constraint means the same to all of them, or nothing
//! is written here.

/// The depth of parentheses and `NOT` at most. Reading goes down once for each.
const MOST_DEPTH: usize = 64;

/// The bytes of an expression at most.
const MOST_BYTES: usize = 64 << 10;

/// The digits of a number at most: those of the widest decimal.
const MOST_DIGITS: usize = 38;

/// The words that are no column without backquotes.
const RESERVED: [&str; 9] = ["and", "between", "false", "in", "is", "not", "null", "or", "true"];

/// The words that have backquotes as names of columns in an expression that is added, in order. Spark with ANSI's
/// reserved words, or `DataFusion`, which delta-rs checks with, takes one for something else.
const ANSI_RESERVED: [&str; 126] = [
    "all",
    "and",
    "anti",
    "any",
    "array",
    "as",
    "authorization",
    "between",
    "both",
    "by",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "connect",
    "constraint",
    "convert",
    "create",
    "cross",
    "cube",
    "current",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "delete",
    "describe",
    "distinct",
    "div",
    "drop",
    "else",
    "end",
    "escape",
    "except",
    "exists",
    "explain",
    "extract",
    "false",
    "fetch",
    "filter",
    "for",
    "foreign",
    "from",
    "full",
    "grant",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "inner",
    "insert",
    "intersect",
    "interval",
    "into",
    "is",
    "join",
    "lateral",
    "leading",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "match",
    "minus",
    "natural",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "outer",
    "over",
    "overlaps",
    "overlay",
    "partition",
    "position",
    "primary",
    "prior",
    "qualify",
    "references",
    "regexp",
    "right",
    "rlike",
    "rollup",
    "row",
    "rows",
    "select",
    "semi",
    "session_user",
    "set",
    "similar",
    "some",
    "sort",
    "sql",
    "struct",
    "substring",
    "table",
    "tablesample",
    "then",
    "to",
    "trailing",
    "trim",
    "true",
    "try_cast",
    "union",
    "unique",
    "unknown",
    "unnest",
    "update",
    "user",
    "using",
    "values",
    "when",
    "where",
    "window",
    "with",
    "within",
];

/// An expression as it is written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    /// A value.
    Literal(Literal),
    /// A column, or a field of one: names from the top.
    Column(Vec<String>),
    /// The negation.
    Not(Box<Expression>),
    /// True if all are.
    All(Vec<Expression>),
    /// True if one is.
    Any(Vec<Expression>),
    /// True if there is no value.
    IsNull(Box<Expression>),
    /// True if the value is one of these.
    In(Box<Expression>, Vec<Literal>),
    /// A comparison.
    Compare(Box<Expression>, Operator, Box<Expression>),
}

/// A literal.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    /// No value.
    Null,
    /// True or false.
    Boolean(bool),
    /// A number without an exponent, which is exact.
    Number(Number),
    /// A number with an exponent.
    Double(f64),
    /// Text.
    Text(String),
    /// The text of a date.
    Date(String),
    /// The text of a timestamp.
    Timestamp(String),
}

/// A decimal number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    /// Its digits as a whole number.
    pub unscaled: i128,
    /// The number of digits behind the point.
    pub scale: u8,
    /// The number of all digits.
    pub digits: u8,
}

/// A comparison of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Quoted(String),
    Number(String),
    Text(String),
    Compare(Operator),
    Open,
    Close,
    Comma,
    Dot,
    Minus,
}

/// The names of columns that need backquotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoting {
    /// Those that cannot be read without them.
    Lax,
    /// All words that SQL reserves.
    Strict,
}

/// Parses an expression. The error says why it is not understood.
pub(super) fn parse(text: &str, quoting: Quoting) -> Result<Expression, String> {
    if text.len() > MOST_BYTES {
        return Err(format!("it is longer than {MOST_BYTES} bytes"));
    }
    let mut parser = Parser {
        tokens: tokens(text)?,
        next: 0,
        depth: 0,
        quoting,
    };
    let expression = parser.any()?;
    match parser.peek() {
        None => Ok(expression),
        Some(token) => Err(unexpected(Some(token))),
    }
}

fn unexpected(token: Option<&Token>) -> String {
    let shown = match token {
        None => return "it ends too early".to_owned(),
        Some(Token::Word(word)) => word.clone(),
        Some(Token::Quoted(name)) => format!("`{name}`"),
        Some(Token::Number(text)) => text.clone(),
        Some(Token::Text(text)) => format!("'{text}'"),
        Some(Token::Compare(_)) => "a comparison".to_owned(),
        Some(Token::Open) => "(".to_owned(),
        Some(Token::Close) => ")".to_owned(),
        Some(Token::Comma) => ",".to_owned(),
        Some(Token::Dot) => ".".to_owned(),
        Some(Token::Minus) => "-".to_owned(),
    };
    format!("{shown} is not expected where it stands")
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, after) = match first {
            '\'' => text_token(rest)?,
            '`' => quoted_token(rest)?,
            '0'..='9' => number_token(rest)?,
            'a'..='z' | 'A'..='Z' | '_' => word_token(rest),
            _ => symbol_token(rest)?,
        };
        tokens.push(token);
        rest = after.trim_start();
    }
    Ok(tokens)
}

fn text_token(text: &str) -> Result<(Token, &str), String> {
    let (content, rest) = text[1..]
        .split_once('\'')
        .ok_or("a text has no quote at its end")?;
    // Spark joins two texts or reads one quote, as its settings say.
    if rest.trim_start().starts_with('\'') {
        return Err(
            "a text has a quote in it or follows another one, which engines read differently".to_owned(),
        );
    }
    if content.contains('\\') {
        return Err("a text has a backslash in it, which engines read differently".to_owned());
    }
    Ok((Token::Text(content.to_owned()), rest))
}

fn quoted_token(text: &str) -> Result<(Token, &str), String> {
    let mut name = String::new();
    let mut rest = &text[1..];
    loop {
        let (part, after) = rest.split_once('`').ok_or("a name has no backquote at its end")?;
        name.push_str(part);
        // A quote that is doubled is a part of the name.
        let Some(more) = after.strip_prefix('`') else {
            return Ok((Token::Quoted(name), after));
        };
        name.push('`');
        rest = more;
    }
}

fn word_token(text: &str) -> (Token, &str) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (Token::Word(word.to_owned()), rest)
}

fn digits_of(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn number_token(text: &str) -> Result<(Token, &str), String> {
    let mut end = digits_of(text);
    if text[end..].starts_with('.') {
        end += 1 + digits_of(&text[end + 1..]);
    }
    if let Some(exponent) = text[end..].strip_prefix(['e', 'E']) {
        let signed = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let digits = digits_of(signed);
        if digits > 0 {
            end += 1 + (exponent.len() - signed.len()) + digits;
        }
    }
    let (number, rest) = text.split_at(end);
    if rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') || number.ends_with('.') {
        return Err(format!("{number} goes on in a way that is not known"));
    }
    Ok((Token::Number(number.to_owned()), rest))
}

fn symbol_token(text: &str) -> Result<(Token, &str), String> {
    static SYMBOLS: [(&str, Token); 13] = [
        ("<=", Token::Compare(Operator::LessOrEqual)),
        (">=", Token::Compare(Operator::GreaterOrEqual)),
        ("<>", Token::Compare(Operator::NotEqual)),
        ("!=", Token::Compare(Operator::NotEqual)),
        ("==", Token::Compare(Operator::Equal)),
        ("<", Token::Compare(Operator::Less)),
        (">", Token::Compare(Operator::Greater)),
        ("=", Token::Compare(Operator::Equal)),
        ("(", Token::Open),
        (")", Token::Close),
        (",", Token::Comma),
        (".", Token::Dot),
        ("-", Token::Minus),
    ];
    if text.starts_with("--") || text.starts_with("/*") {
        return Err("comments are not known".to_owned());
    }
    if text.starts_with('"') {
        return Err(
            "double quotes are those of a text for some engines, and those of a name for others".to_owned(),
        );
    }
    let Some((symbol, token)) = SYMBOLS.iter().find(|(symbol, _)| text.starts_with(symbol)) else {
        let sign = text.chars().next().unwrap_or_default();
        return Err(format!("{sign:?} is not known"));
    };
    Ok((token.clone(), &text[symbol.len()..]))
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
    quoting: Quoting,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    fn take(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.next += 1;
        token
    }

    /// Takes the next token if it is this one.
    fn accept(&mut self, token: &Token) -> bool {
        let is_next = self.peek() == Some(token);
        self.next += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, token: &Token) -> Result<(), String> {
        if self.accept(token) {
            return Ok(());
        }
        Err(unexpected(self.peek()))
    }

    /// Takes the next token if it is this word, in any case.
    fn accept_word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Word(next)) if next.eq_ignore_ascii_case(word));
        self.next += usize::from(is_next);
        is_next
    }

    fn expect_word(&mut self, word: &str) -> Result<(), String> {
        if self.accept_word(word) {
            return Ok(());
        }
        Err(unexpected(self.peek()))
    }

    fn any(&mut self) -> Result<Expression, String> {
        let mut parts = vec![self.all()?];
        while self.accept_word("or") {
            parts.push(self.all()?);
        }
        Ok(one_or(parts, Expression::Any))
    }

    fn all(&mut self) -> Result<Expression, String> {
        let mut parts = vec![self.negated()?];
        while self.accept_word("and") {
            parts.push(self.negated()?);
        }
        Ok(one_or(parts, Expression::All))
    }

    fn negated(&mut self) -> Result<Expression, String> {
        if self.accept_word("not") {
            let inner = self.deeper(Self::negated)?;
            return Ok(Expression::Not(Box::new(inner)));
        }
        self.predicate()
    }

    fn deeper(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<Expression, String>,
    ) -> Result<Expression, String> {
        if self.depth == MOST_DEPTH {
            return Err(format!("it is nested deeper than {MOST_DEPTH}"));
        }
        self.depth += 1;
        let done = inner(self);
        self.depth -= 1;
        done
    }

    fn predicate(&mut self) -> Result<Expression, String> {
        let left = self.operand()?;
        if let Some(Token::Compare(operator)) = self.peek() {
            let operator = *operator;
            self.next += 1;
            let right = self.operand()?;
            return Ok(compare(left, operator, right));
        }
        if self.accept_word("is") {
            let is_negated = self.accept_word("not");
            self.expect_word("null")?;
            return Ok(negated_if(is_negated, Expression::IsNull(Box::new(left))));
        }
        let is_negated = self.accept_word("not");
        if self.accept_word("in") {
            let among = Expression::In(Box::new(left), self.list()?);
            return Ok(negated_if(is_negated, among));
        }
        if self.accept_word("between") {
            if !matches!(left, Expression::Column(_) | Expression::Literal(_)) {
                return Err("BETWEEN goes with a column or a literal".to_owned());
            }
            let least = self.operand()?;
            self.expect_word("and")?;
            let greatest = self.operand()?;
            let within = Expression::All(vec![
                compare(left.clone(), Operator::GreaterOrEqual, least),
                compare(left, Operator::LessOrEqual, greatest),
            ]);
            return Ok(negated_if(is_negated, within));
        }
        if is_negated {
            return Err(unexpected(self.peek()));
        }
        Ok(left)
    }

    /// The list after `IN`.
    fn list(&mut self) -> Result<Vec<Literal>, String> {
        self.expect(&Token::Open)?;
        let mut literals = Vec::new();
        loop {
            match self.operand()? {
                Expression::Literal(literal) => literals.push(literal),
                _ => return Err("a list has something else than literals".to_owned()),
            }
            if !self.accept(&Token::Comma) {
                break;
            }
        }
        self.expect(&Token::Close)?;
        Ok(literals)
    }

    fn operand(&mut self) -> Result<Expression, String> {
        match self.take() {
            Some(Token::Open) => {
                let inner = self.deeper(Self::any)?;
                self.expect(&Token::Close)?;
                Ok(inner)
            }
            Some(Token::Minus) => match self.take() {
                Some(Token::Number(text)) => Ok(Expression::Literal(number(&text, true)?)),
                other => Err(unexpected(other.as_ref())),
            },
            Some(Token::Number(text)) => Ok(Expression::Literal(number(&text, false)?)),
            Some(Token::Text(text)) => Ok(Expression::Literal(Literal::Text(text))),
            Some(Token::Quoted(name)) => self.column(name),
            Some(Token::Word(word)) => self.word(word),
            other => Err(unexpected(other.as_ref())),
        }
    }

    fn word(&mut self, word: String) -> Result<Expression, String> {
        let lower = word.to_ascii_lowercase();
        if let ("date" | "timestamp", Some(Token::Text(text))) = (lower.as_str(), self.peek()) {
            let text = text.clone();
            self.next += 1;
            return Ok(Expression::Literal(if lower == "date" {
                Literal::Date(text)
            } else {
                Literal::Timestamp(text)
            }));
        }
        match lower.as_str() {
            "null" => Ok(Expression::Literal(Literal::Null)),
            "true" | "false" => Ok(Expression::Literal(Literal::Boolean(lower == "true"))),
            reserved if RESERVED.contains(&reserved) => Err(unexpected(Some(&Token::Word(word)))),
            _ if self.peek() == Some(&Token::Open) => Err(format!("the function {word} is not known")),
            _ => {
                self.check_bare(&word)?;
                self.column(word)
            }
        }
    }

    /// Refuses a reserved word without backquotes.
    fn check_bare(&self, word: &str) -> Result<(), String> {
        let lower = word.to_ascii_lowercase();
        if self.quoting == Quoting::Strict && ANSI_RESERVED.binary_search(&lower.as_str()).is_ok() {
            return Err(format!(
                "SQL reserves the word {word}: write the column as `{word}`"
            ));
        }
        Ok(())
    }

    /// The rest of a column's name.
    fn column(&mut self, first: String) -> Result<Expression, String> {
        let mut path = vec![first];
        while self.accept(&Token::Dot) {
            match self.take() {
                Some(Token::Quoted(part)) => path.push(part),
                Some(Token::Word(part)) => {
                    self.check_bare(&part)?;
                    path.push(part);
                }
                other => return Err(unexpected(other.as_ref())),
            }
        }
        if self.peek() == Some(&Token::Open) {
            return Err(format!("the function {} is not known", path.join(".")));
        }
        Ok(Expression::Column(path))
    }
}

fn one_or(mut parts: Vec<Expression>, several: impl FnOnce(Vec<Expression>) -> Expression) -> Expression {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            several(parts)
        }
    }
}

fn negated_if(is_negated: bool, expression: Expression) -> Expression {
    if is_negated {
        Expression::Not(Box::new(expression))
    } else {
        expression
    }
}

fn compare(left: Expression, operator: Operator, right: Expression) -> Expression {
    Expression::Compare(Box::new(left), operator, Box::new(right))
}

fn number(text: &str, is_negative: bool) -> Result<Literal, String> {
    let unknown = || format!("the number {text} has more than {MOST_DIGITS} digits");
    if text.contains(['e', 'E']) {
        let value: f64 = text.parse().map_err(|_| format!("{text} is no number"))?;
        if !value.is_finite() {
            return Err(format!("the number {text} is beyond the doubles"));
        }
        return Ok(Literal::Double(if is_negative { -value } else { value }));
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.trim_start_matches('0');
    let digits = (whole.len() + fraction.len()).max(1);
    if digits > MOST_DIGITS {
        return Err(unknown());
    }
    let unscaled: i128 = match format!("{whole}{fraction}").as_str() {
        "" => 0,
        digits => digits.parse().map_err(|_| unknown())?,
    };
    Ok(Literal::Number(Number {
        unscaled: if is_negative { -unscaled } else { unscaled },
        scale: u8::try_from(fraction.len()).map_err(|_| unknown())?,
        digits: u8::try_from(digits).map_err(|_| unknown())?,
    }))
}

impl Number {
    /// The nearest double.
    pub fn to_double(self) -> Option<f64> {
        format!("{}e-{}", self.unscaled, self.scale).parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Expression, String> {
        super::parse(text, Quoting::Lax)
    }

    fn column(name: &str) -> Expression {
        Expression::Column(name.split('.').map(str::to_owned).collect())
    }

    fn whole(value: i128) -> Expression {
        let digits = u8::try_from(value.abs().to_string().len()).unwrap();
        Expression::Literal(Literal::Number(Number {
            unscaled: value,
            scale: 0,
            digits,
        }))
    }

    #[test]
    fn not_binds_closer_than_and_and_that_closer_than_or() {
        let flag = column;
        let parsed = parse("NOT a AND b OR NOT (c or d)").unwrap();
        assert_eq!(
            parsed,
            Expression::Any(vec![
                Expression::All(vec![Expression::Not(Box::new(flag("a"))), flag("b")]),
                Expression::Not(Box::new(Expression::Any(vec![flag("c"), flag("d")]))),
            ])
        );
    }

    #[test]
    fn lists_have_literals_and_ranges_are_comparisons() {
        let Expression::In(left, literals) = parse("a.`b` in (1, -2)").unwrap() else {
            panic!("no list");
        };
        assert_eq!(*left, column("a.b"));
        let values: Vec<Expression> = literals.into_iter().map(Expression::Literal).collect();
        assert_eq!(values, [whole(1), whole(-2)]);
        assert_eq!(
            parse("x not between 0 and 10").unwrap(),
            Expression::Not(Box::new(Expression::All(vec![
                compare(column("x"), Operator::GreaterOrEqual, whole(0)),
                compare(column("x"), Operator::LessOrEqual, whole(10)),
            ])))
        );
        assert_eq!(
            parse("x IS NOT NULL").unwrap(),
            Expression::Not(Box::new(Expression::IsNull(Box::new(column("x")))))
        );
    }

    #[test]
    fn numbers_are_exact_without_an_exponent() {
        let of = |text: &str| match parse(&format!("x = {text}")) {
            Ok(Expression::Compare(_, _, right)) => Ok(*right),
            other => Err(other),
        };
        let exact = |unscaled, scale, digits| {
            Ok(Expression::Literal(Literal::Number(Number {
                unscaled,
                scale,
                digits,
            })))
        };
        assert_eq!(of("007"), exact(7, 0, 1));
        assert_eq!(of("0"), exact(0, 0, 1));
        assert_eq!(of("-0.50"), exact(-50, 2, 2));
        assert_eq!(of("12.5"), exact(125, 1, 3));
        assert_eq!(of("1e-3"), Ok(Expression::Literal(Literal::Double(1e-3))));
        assert_eq!(of("-2E2"), Ok(Expression::Literal(Literal::Double(-200.0))));
        assert!(of(&"9".repeat(38)).is_ok());
    }

    #[test]
    fn words_may_be_columns_and_types() {
        assert_eq!(
            parse("date >= DATE '2026-01-31'").unwrap(),
            compare(
                column("date"),
                Operator::GreaterOrEqual,
                Expression::Literal(Literal::Date("2026-01-31".to_owned()))
            )
        );
        assert_eq!(
            parse("`not` = 'x'").unwrap(),
            compare(
                column("not"),
                Operator::Equal,
                Expression::Literal(Literal::Text("x".to_owned()))
            )
        );
        assert_eq!(
            parse("`a``b.c`").unwrap(),
            Expression::Column(vec!["a`b.c".to_owned()])
        );
    }

    #[test]
    fn what_is_not_known_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "ends too early"),
            ("a >", "ends too early"),
            ("a > 1 2", "2 is not expected"),
            ("a < b < c", "a comparison is not expected"),
            ("a <=> 1", "a comparison is not expected"),
            ("length(a) > 1", "function length"),
            ("a.b(c)", "function a.b"),
            ("a like 'x'", "like is not expected"),
            ("a not like 'x'", "like is not expected"),
            ("a + 1 > 2", "'+'"),
            ("-a > 1", "a is not expected"),
            ("a = \"x\"", "double quotes"),
            ("a = 'it''s'", "quote"),
            ("a = 'x' 'y'", "quote"),
            ("a = 'x\\n'", "backslash"),
            ("a = 'x", "quote at its end"),
            ("`a = 1", "backquote at its end"),
            ("a = 10L", "10 goes on"),
            ("a = 1.", "1. goes on"),
            ("a = 1e", "1 goes on"),
            ("a = 1 -- no", "comments"),
            ("a = 1;", "';'"),
            ("a in ()", ") is not expected"),
            ("a in (1, b)", "else than literals"),
            ("(a or b) between 0 and 1", "BETWEEN goes with"),
            ("a < 1e400", "beyond the doubles"),
            ("a is true", "true is not expected"),
            ("and = 1", "and is not expected"),
            ("ä = 1", "'ä'"),
            ("case when a then b end", "when is not expected"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
        let digits = "9".repeat(39);
        assert!(parse(&format!("a = {digits}")).unwrap_err().contains("38 digits"));
        let deep = format!("{}a{}", "(".repeat(65), ")".repeat(65));
        assert!(parse(&deep).unwrap_err().contains("deeper than 64"));
        assert!(parse(&format!("{} a", "not ".repeat(65))).is_err());
        assert!(parse(&vec!["a = 1"; 5_000].join(" or ")).is_ok());
        assert!(
            parse(&vec!["a = 1"; 10_000].join(" or "))
                .unwrap_err()
                .contains("65536 bytes")
        );
    }

    #[test]
    fn nested_ranges_are_refused_before_they_multiply() {
        let nested = format!("{}a{}", "(".repeat(64), " between 0 and 1)".repeat(64));
        assert!(parse(&nested).unwrap_err().contains("BETWEEN goes with"));
    }

    #[test]
    fn reserved_words_have_backquotes_in_what_is_added() {
        let strict = |text: &str| super::parse(text, Quoting::Strict);
        for text in ["end = 1", "User = 'a'", "a.table = 1", "interval is null", "case"] {
            assert!(strict(text).unwrap_err().contains("SQL reserves"), "{text}");
            assert!(parse(text).is_ok(), "{text}");
        }
        assert!(strict("`end` = 1 and a.`table` = 1 and date > DATE '2026-01-31'").is_ok());
        assert!(ANSI_RESERVED.is_sorted());
    }

    #[test]
    fn the_nearest_double_is_that_of_the_digits() {
        for text in ["0.1", "123456789.987654321", "2", "0.30000000000000001"] {
            let Ok(Literal::Number(number)) = number(text, false) else {
                panic!("{text} is no exact number");
            };
            assert_eq!(number.to_double(), text.parse().ok(), "{text}");
        }
    }
}
