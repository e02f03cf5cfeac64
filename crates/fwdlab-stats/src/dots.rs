//! One line of dots: the positions of a sample's values between two ends.
//!
//! A miniature of ministat's plot for a table cell; the plot itself is in
//! [`ministat`](crate::ministat). Start at [`dots`].

/// Draws a row of `width` characters for the range `low..=high`, with both ends at the centre of
/// their column: `x` for one value in a column, `X` for two or more, `<` and `>` at the edge for
/// values outside.
///
/// Values that are not finite are omitted. A range of zero width is drawn in the middle.
pub fn dots(values: &[f64], low: f64, high: f64, width: usize) -> String {
    let mut row = vec![' '; width];
    if width == 0 {
        return String::new();
    }
    let last = width - 1;
    for &value in values.iter().filter(|v| v.is_finite()) {
        if value < low {
            row[0] = '<';
        } else if value > high {
            row[last] = '>';
        } else {
            let share = if high > low {
                (value - low) / (high - low)
            } else {
                0.5
            };
            let column = &mut row[((share * last as f64).round() as usize).min(last)];
            match *column {
                ' ' => *column = 'x',
                'x' => *column = 'X',
                // More than two values, or a mark for values outside, which has priority.
                _ => {}
            }
        }
    }
    row.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows() {
        let check = |values: &[f64], low, high, width, expect: &str| {
            assert_eq!(dots(values, low, high, width), expect);
        };
        check(&[0.0, 5.0, 10.0], 0.0, 10.0, 11, "x    x    x");
        check(&[0.0, 0.2, 7.0, 7.1, 6.9], 0.0, 10.0, 11, "X      X   ");
        check(&[-1.0, 5.0, 11.0, 10.0], 0.0, 10.0, 11, "<    x    >");
        check(&[3.0, 3.0], 3.0, 3.0, 5, "  X  ");
        check(&[3.0], 0.0, 10.0, 1, "x");
        check(&[3.0], 0.0, 10.0, 0, "");
        check(&[], 0.0, 10.0, 3, "   ");
        check(&[f64::NAN], 0.0, 10.0, 3, "   ");
    }

    proptest! {
        #[test]
        fn always_as_wide_as_asked(
            values in prop::collection::vec(any::<f64>(), 0..20),
            low in any::<f64>(), high in any::<f64>(), width in 0..200_usize,
        ) {
            prop_assert_eq!(dots(&values, low, high, width).chars().count(), width);
        }
    }
}
