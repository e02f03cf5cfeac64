// The script of a one-file report.
import { turnPages } from "./rows";

turnPages(document);
