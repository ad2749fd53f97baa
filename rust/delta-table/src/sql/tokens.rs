//! The tokens of a condition, with their places.

use super::Purpose;
use super::fault::Fault;
use super::parse::Operator;

/// Something at a place of the text. Two are equal wherever they stand.
#[derive(Debug, Clone)]
pub(super) struct Placed<T> {
    pub it: T,
    /// The byte where it begins.
    pub at: usize,
}

impl<T: PartialEq> PartialEq for Placed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.it == other.it
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
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

impl Token {
    /// The token in an error.
    pub fn shown(&self) -> String {
        match self {
            Self::Word(word) => word.clone(),
            Self::Quoted(name) => format!("`{name}`"),
            Self::Number(text) => text.clone(),
            Self::Text(text) => format!("'{text}'"),
            Self::Compare(_) => "a comparison".to_owned(),
            Self::Open => "(".to_owned(),
            Self::Close => ")".to_owned(),
            Self::Comma => ",".to_owned(),
            Self::Dot => ".".to_owned(),
            Self::Minus => "-".to_owned(),
        }
    }
}

/// The tokens of a text, in their order.
pub(super) fn tokens(text: &str, purpose: Purpose) -> Result<Vec<Placed<Token>>, Fault> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let at = text.len() - rest.len();
        let read = match first {
            '\'' => text_token(rest, purpose),
            '`' => quoted_token(rest),
            '0'..='9' => number_token(rest),
            'a'..='z' | 'A'..='Z' | '_' => Ok(word_token(rest)),
            _ => symbol_token(rest),
        };
        let (it, after) = read.map_err(|why| Fault::at(at, why))?;
        tokens.push(Placed { it, at });
        rest = after.trim_start();
    }
    Ok(tokens)
}

fn text_token(text: &str, purpose: Purpose) -> Result<(Token, &str), String> {
    let (mut content, mut rest) = up_to_quote(&text[1..])?;
    // Spark joins two texts or reads one quote, as its settings say.
    while purpose == Purpose::Asked
        && let Some(more) = rest.strip_prefix('\'')
    {
        let (part, after) = up_to_quote(more)?;
        content.push('\'');
        content.push_str(&part);
        rest = after;
    }
    if rest.trim_start().starts_with('\'') {
        return Err(
            "a text has a quote in it or follows another one, which engines read differently".to_owned(),
        );
    }
    if content.contains('\\') {
        let instead = match purpose {
            Purpose::Asked => ": give it as a tuple of column, operator and value",
            Purpose::Added | Purpose::Stated => "",
        };
        return Err(format!(
            "a text has a backslash in it, which engines read differently{instead}"
        ));
    }
    Ok((Token::Text(content), rest))
}

fn up_to_quote(text: &str) -> Result<(String, &str), String> {
    let (content, rest) = text.split_once('\'').ok_or("a text has no quote at its end")?;
    Ok((content.to_owned(), rest))
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
        return Err(format!(
            "{number} goes on in a way that is not known: give a number such as 7, -0.5 or 1e3"
        ));
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
            "double quotes are those of a text for some engines, and those of a name for others: write a text as 'x', \
             and a name as `x`"
                .to_owned(),
        );
    }
    let Some((symbol, token)) = SYMBOLS.iter().find(|(symbol, _)| text.starts_with(symbol)) else {
        let sign = text.chars().next().unwrap_or_default();
        let instead = if sign.is_alphabetic() {
            ": a name with it has backquotes"
        } else {
            ""
        };
        return Err(format!("{sign:?} is not known{instead}"));
    };
    Ok((token.clone(), &text[symbol.len()..]))
}
